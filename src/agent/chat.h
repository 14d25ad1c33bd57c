// What is said to a model and what it answers, in no API's own words; how each API writes it down
// (wire_*.cc). Inside of agent/ only, but for the tests.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/http.h"
#include "base/result.h"
#include "base/sse.h"
#include "core/event.h"

namespace marathon {

// One piece of an answer, in the order in which it came.
struct ChatBlock {
  enum class Kind : uint8_t { text, reasoning, call };
  Kind kind = Kind::text;
  std::string text;    // of text and reasoning
  std::string opaque;  // JSON that the API wants back unchanged with this block (signature,
                       // encrypted reasoning), or ""
  ToolCall call;  // of a call; arguments are JSON text as the model wrote it, perhaps not valid
};

struct ChatResult {  // of one call
  std::string call, text;
  bool ok = true;
};

// Either what the user side says (text and results of calls) or an answer of the model.
struct ChatMessage {
  bool assistant = false;
  std::vector<ChatResult> results;  // user side; stand before the text
  std::string text;                 // user side
  std::vector<ChatBlock> blocks;    // assistant
  bool cache_until_here = false;    // what stands before is the same in the next request
};

struct ChatTool {
  std::string name, description;
  std::string parameters;  // JSON schema, an object
};

struct ChatRequest {
  std::string model;
  std::string system;
  std::vector<ChatMessage> messages;
  std::vector<ChatTool> tools;
  int64_t max_output_tokens = 8192;
  // JSON object of further fields (temperature, reasoning effort …), or "". They stand over the
  // limit of the output and stream_options, where null removes the field; never over the others.
  std::string extra;
};

// Tokens, each counted once: input excludes what came from a cache or went into one.
struct Usage {
  bool known = false;
  int64_t input = 0, cache_read = 0, cache_write = 0, output = 0;
};

enum class ChatStop : uint8_t {
  end,             // the model has said what it wanted
  calls,           // it waits for results
  length,          // the output limit cut it
  content_filter,  // the server refused to go on
  paused,          // the server wants the same conversation again (Anthropic's pause_turn)
};
std::string_view to_string(ChatStop stop);

struct ChatReply {
  std::vector<ChatBlock> blocks;
  ChatStop stop = ChatStop::end;
  Usage usage;
  std::string id, model;  // as the server says
};

// What can go wrong with a request; the agent's answer to each is in llm_failures.cc.
enum class ModelFault : uint8_t {
  rate_limited,      // 429: wait as told; parks the run
  overloaded,        // 503, 529: wait
  server,            // other 5xx, an error inside a stream
  network,           // resolve, connect, reset, idle, time-out, stream cut
  context_overflow,  // the request is larger than the model's window: compact, then again
  bad_request,       // 400, 422: the same request will fail again
  auth,              // 401, 403: key or permission: a person must act
  quota,             // out of credit or a spending limit: a person must act
  not_found,         // no such model or no such path
  tls,               // certificate: a person must act
  content_filter,    // the answer was withheld
  malformed,         // not what the API documents (no JSON, a reply too large …)
  empty,             // an answer without text and calls
  cancelled,
};
std::string_view to_string(ModelFault fault);
std::optional<ModelFault> model_fault_from(std::string_view name);

struct ModelFailure {
  ModelFault fault = ModelFault::server;
  std::string what;  // one sentence for people; holds no key
  int status = 0;    // HTTP, 0: none
  std::optional<double>
      retry_after_s;  // as the server asks, from seconds or a date; not capped here
  Usage usage;        // what the server said before it failed
  // Of an answer that was cut, as it stood: text, reasoning, calls. They were generated and will be
  // charged, also where no usage came.
  int64_t received_bytes = 0;
};

enum class WireApi : uint8_t { openai, anthropic };  // chat completions; messages
std::string_view to_string(WireApi api);

// The body of a streaming request. Equal requests give equal bytes. OpenAI:
// stream_options.include_usage; max_completion_tokens for OpenAI's own newer models, else
// max_tokens; a call whose arguments are not a JSON object goes out as {} (its
// result says what was wrong); results that belong to no call are sent as text; every call has a
// result (a missing one is filled in: "no result is on record"). Anthropic: at most four
// cache_control marks: system, and the last three messages that ask for one.
std::string encode_request(WireApi api, const ChatRequest& request);
std::string request_url(WireApi api,
                        const std::string& base_url);  // …/chat/completions, …/v1/messages
std::vector<std::pair<std::string, std::string>> request_headers(WireApi api,
                                                                 const std::string& key);

// Told while an answer comes in: text of the model or of its reasoning, for the live line.
using OnDelta = std::function<void(ChatBlock::Kind kind, std::string_view text)>;

// Puts an answer together from its stream. One for each request.
class ReplyDecoder {
 public:
  virtual ~ReplyDecoder() = default;
  // Error retry when the stream itself reports a failure (see failure()), invalid when an event is
  // not what the API documents.
  virtual Status feed(const SseEvent& event) = 0;
  // A server that answers with one JSON object although a stream was asked for.
  virtual Status take_whole(std::string_view body) = 0;
  // The API's own mark of the end, or its reason to stop, was seen: the answer is whole. Read on to
  // the end of the stream, since usage may follow.
  virtual bool done() const = 0;
  virtual const std::optional<ModelFailure>& failure() const = 0;
  // Valid at any time: what has come so far.
  virtual ChatReply reply() const = 0;
};
std::unique_ptr<ReplyDecoder> make_reply_decoder(WireApi api, OnDelta on_delta);

// `now_us`: wall clock, for a Retry-After that is a date.
ModelFailure classify_http(WireApi api, const HttpReply& reply, int64_t now_us);
// A body of an error, or the payload of an error event in a stream.
ModelFailure classify_error_body(WireApi api, int status, std::string_view body);

struct Endpoint {
  WireApi api = WireApi::openai;
  std::string base_url, key;  // the key is in no message and no log
  double connect_timeout_s = 20, idle_timeout_s = 180, total_timeout_s = 3600;
  std::string ca_file;
};

struct ModelAnswer {
  std::optional<ChatReply> reply;       // whole, by the API's own mark of the end
  std::optional<ModelFailure> failure;  // else
};
// One request, once: no retries. A stop gives cancelled. An answer that ended by itself without
// text and calls (reasoning alone is none) is a failure, and so is one that was withheld; one that
// the output limit cut or that paused is a reply, whatever it holds. Trouble with the connection
// behind the API's mark of the end is none.
ModelAnswer ask_model(const Endpoint& endpoint, const ChatRequest& request, const OnDelta& on_delta,
                      std::stop_token stop);

}  // namespace marathon
