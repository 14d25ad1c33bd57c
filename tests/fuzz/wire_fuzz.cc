// Any bytes as a model's answer, of either API: what came so far is always readable, a failure and
// an error come together, and the next request is one that an API can read.
//
//   wire_fuzz -max_len=8192 -timeout=10 build/corpus tests/golden/wire
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "agent/chat.h"
#include "base/json.h"

namespace {

using namespace marathon;

constexpr WireApi apis[] = {WireApi::openai, WireApi::anthropic};

void demand(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "wire_fuzz: %s\n", what);
  std::abort();
}

void check_failure(const ModelFailure& failure) {
  demand(!failure.what.empty() && failure.what.size() < 1000, "a strange sentence");
  for (const char c : failure.what) {
    demand(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f, "a control character in a sentence");
  }
  demand(model_fault_from(to_string(failure.fault)) == failure.fault, "a fault without a name");
}

void check_reply(const ChatReply& reply, const std::string& said) {
  std::string text;
  for (const ChatBlock& block : reply.blocks) {
    text += block.text;
    demand(block.opaque.empty() || parse_json(block.opaque).has_value(), "opaque is no JSON");
    const bool is_call = block.kind == ChatBlock::Kind::call;
    demand(!is_call || block.text.empty(), "a call with text");
    demand(is_call || !block.text.empty() || !block.opaque.empty(), "a block of nothing");
  }
  // Blocks of a stream may grow in turns, so the order may be another one.
  demand(text.size() == said.size(), "on_delta told another text");
  const Usage& usage = reply.usage;
  demand(usage.input >= 0 && usage.output >= 0 && usage.cache_read >= 0 && usage.cache_write >= 0,
         "a negative count");
}

// The answer, a result for a call that may not be its own, and the answer again.
void check_next_request(const ChatReply& reply) {
  ChatRequest request;
  ChatMessage question, answer, result;
  question.text = "Begin.";
  answer.assistant = true;
  answer.blocks = reply.blocks;
  result.results = {{reply.blocks.empty() ? "x" : reply.blocks.back().call.id, "done", true}};
  request.messages = {question, answer, result, answer};
  for (const WireApi api : apis) {
    const Result<Json> body = parse_json(encode_request(api, request));
    demand(body.has_value(), "a request that is no JSON");
    size_t calls = 0, results = 0;
    std::string last;
    for (const Json& message : (*body)["messages"]) {
      const std::string role = json_string(message, "role");
      demand(role == "tool" || role != last, "two messages of one side");
      last = role;
      if (role == "tool") ++results;
      if (message.contains("tool_calls")) calls += message["tool_calls"].size();
      if (!message["content"].is_array()) continue;
      demand(!message["content"].empty(), "a message without content");
      for (const Json& block : message["content"]) {
        calls += json_string(block, "type") == "tool_use";
        results += role == "user" && json_string(block, "type") == "tool_result";
      }
    }
    demand(calls == results, "a call without a result");
  }
}

struct Listener {
  std::string said;
  std::unique_ptr<ReplyDecoder> decoder;

  explicit Listener(WireApi api)
      : decoder(make_reply_decoder(
            api, [this](ChatBlock::Kind, std::string_view piece) { said += piece; })) {}
  void check(const Status& status) {
    demand(status || status.error().fault == Fault::retry || status.error().fault == Fault::invalid,
           "an error of another kind");
    const bool failed = !status && status.error().fault == Fault::retry;
    demand(failed == decoder->failure().has_value(), "a failure without an error, or one without");
    if (failed) check_failure(*decoder->failure());
  }
};

void check_stream(WireApi api, std::string_view stream) {
  Listener listener(api);
  SseParser parser([&](const SseEvent& event) {
    Status status = listener.decoder->feed(event);
    listener.check(status);
    return status;
  });
  if (parser.feed(stream)) parser.finish();
  const ChatReply reply = listener.decoder->reply();
  check_reply(reply, listener.said);
  check_next_request(reply);
}

void check_whole(WireApi api, std::string_view body) {
  Listener listener(api);
  const Status status = listener.decoder->take_whole(body);
  listener.check(status);
  demand(listener.decoder->done() || !status, "a whole answer that is not done");
  check_reply(listener.decoder->reply(), listener.said);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  HttpReply reply;
  reply.status = size == 0 ? 500 : 300 + data[0];
  reply.body = bytes;
  reply.headers = {{"retry-after", std::string(bytes)}};
  for (const WireApi api : apis) {
    check_stream(api, bytes);
    check_whole(api, bytes);
    check_failure(classify_error_body(api, 0, bytes));
    const ModelFailure failure = classify_http(api, reply, 1'000'000);
    check_failure(failure);
    const double after = failure.retry_after_s.value_or(0);
    demand(std::isfinite(after) && after >= 0, "a wait that is no time");
  }
  return 0;
}
