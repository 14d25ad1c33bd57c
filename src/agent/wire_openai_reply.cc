// OpenAI's chat completions: the answer, as the many servers that speak it write it down.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "agent/wire.h"

namespace marathon {

namespace {

using Kind = ChatBlock::Kind;

bool is_object_text(const std::string& text) {
  const Result<Json> json = parse_json(text);
  return json && json->is_object();
}

class OpenaiDecoder : public WireDecoder {
 public:
  explicit OpenaiDecoder(OnDelta on_delta) : WireDecoder(std::move(on_delta)) {}

  Status feed(const SseEvent& event) override;
  Status take_whole(std::string_view body) override;
  ChatReply reply() const override;

 private:
  struct Call {
    std::optional<int64_t> index;
    size_t block = 0;
  };

  Status take(const Json& json, const char* part, std::string_view body);
  Status take_choice(const Json& choice, const char* part);
  void take_message(const Json& message);
  void take_content(const Json& content);
  void take_reasoning(const Json& message);
  void take_details(const Json& details);
  void take_call(const Json& call);
  Status take_finish(std::string_view reason);
  void take_usage(const Json& usage);
  void add(Kind kind, const std::string& text);
  size_t block_for(const Json& call, const std::string& id, const std::string& name);

  ChatReply reply_;
  std::vector<Call> calls_;
  std::string reasoning_name_;
  Json details_ = Json::array();
};

Status OpenaiDecoder::feed(const SseEvent& event) {
  if (failure_) return fail(Fault::retry, failure_->what);
  if (is_blank(event.data)) return {};
  if (event.data.starts_with("[DONE]")) {
    done_ = true;
    return {};
  }
  if (event.type == "error")
    return report(classify_error_body(WireApi::openai, 0, event.data), reply_.usage);
  const Result<Json> json = parse_json(event.data);
  if (!json) {
    return fail(Fault::invalid,
                fmt::format("a piece of the model's answer is {}", json.error().what));
  }
  return take(*json, "delta", event.data);
}

Status OpenaiDecoder::take_whole(std::string_view body) {
  const Result<Json> json = parse_json(body);
  if (!json)
    return fail(Fault::invalid, fmt::format("the model's answer is {}", json.error().what));
  TRY(take(*json, "message", body));
  if (json_member(*json, "choices").empty())
    return fail(Fault::invalid, "the model's answer has no choices, so it is no chat completion");
  done_ = true;
  return {};
}

// `part`: where a choice has its piece of the message.
Status OpenaiDecoder::take(const Json& json, const char* part, std::string_view body) {
  const bool in_list = json.is_array() && json.size() == 1;  // Gemini's way to report an error
  const Json& error = json_member(in_list ? json[0] : json, "error");
  if (!error.is_null() || json_string(json, "object") == "error")
    return report(classify_error_body(WireApi::openai, 0, body), reply_.usage);
  if (!json.is_object())
    return fail(Fault::invalid, "a piece of the model's answer is not a JSON object");
  if (reply_.id.empty()) reply_.id = json_string(json, "id");
  if (reply_.model.empty()) reply_.model = json_string(json, "model");
  take_usage(json_member(json, "usage"));
  take_usage(json_member(json_member(json, "x_groq"), "usage"));
  const Json& choices = json_member(json, "choices");
  if (!choices.is_null() && !choices.is_array())
    return fail(Fault::invalid, "'choices' in a piece of the model's answer is not a list");
  for (const Json& choice : choices) {
    if (json_int(choice, "index") == 0) TRY(take_choice(choice, part));
  }
  return {};
}

Status OpenaiDecoder::take_choice(const Json& choice, const char* part) {
  const Json& error =
      json_member(choice, "error");  // OpenRouter, when the model's own server fails
  if (!error.is_null())
    return report(classify_error_body(WireApi::openai, 0, dump_json(choice)), reply_.usage);
  take_message(json_member(choice, part));
  take_usage(json_member(choice, "usage"));  // Moonshot
  const std::string reason = json_string(choice, "finish_reason");
  return reason.empty() ? Status() : take_finish(reason);
}

void OpenaiDecoder::take_message(const Json& message) {
  take_reasoning(message);
  take_content(json_member(message, "content"));
  add(Kind::text, json_string(message, "refusal"));
  const Json& calls = json_member(message, "tool_calls");
  if (calls.is_array()) std::ranges::for_each(calls, [&](const Json& call) { take_call(call); });
  const Json& function = json_member(message, "function_call");  // before there were tools
  if (function.is_object()) take_call({{"function", function}, {"index", 0}});
}

// A list of parts is Mistral's form; its "thinking" holds parts in turn.
void OpenaiDecoder::take_content(const Json& content) {
  if (content.is_string()) add(Kind::text, content.get<std::string>());
  if (!content.is_array()) return;
  for (const Json& part : content) {
    add(Kind::text, json_string(part, "text"));
    const Json& thinking = json_member(part, "thinking");
    if (!thinking.is_array()) continue;
    for (const Json& piece : thinking) add(Kind::reasoning, json_string(piece, "text"));
  }
}

// Some servers give the same text under both names.
void OpenaiDecoder::take_reasoning(const Json& message) {
  for (const char* name : {"reasoning_content", "reasoning"}) {
    const std::string text = json_string(message, name);
    if (text.empty()) continue;
    if (reasoning_name_.empty()) reasoning_name_ = name;
    if (reasoning_name_ == name) add(Kind::reasoning, text);
  }
  take_details(json_member(message, "reasoning_details"));
}

// Pieces of one block of text are joined, as they must go back in the form of the whole answer.
void OpenaiDecoder::take_details(const Json& details) {
  if (!details.is_array()) return;
  for (const Json& detail : details) {
    if (!detail.is_object()) continue;
    const bool is_text = detail.contains("text") || detail.contains("summary");
    const bool goes_on = is_text && !details_.empty() &&
                         json_member(details_.back(), "type") == json_member(detail, "type") &&
                         json_member(details_.back(), "index") == json_member(detail, "index");
    if (!goes_on) {
      details_.push_back(detail);
      continue;
    }
    Json& last = details_.back();
    for (const auto& [key, value] : detail.items()) {
      const bool is_piece = (key == "text" || key == "summary") && value.is_string();
      if (is_piece)
        last[key] = json_string(last, key) + value.get<std::string>();
      else if (!value.is_null())
        last[key] = value;
    }
  }
}

void OpenaiDecoder::take_call(const Json& call) {
  const Json& function = json_member(call, "function");
  const std::string id = json_string(call, "id"), name = json_string(function, "name");
  ChatBlock& block = reply_.blocks[block_for(call, id, name)];
  if (block.call.id.empty()) block.call.id = id;
  // Some servers repeat the name in every piece.
  if (block.call.name != name) block.call.name += name;
  const Json& arguments = json_member(function, "arguments");
  if (arguments.is_string())
    block.call.arguments += arguments.get<std::string>();
  else if (arguments.is_object())
    block.call.arguments = dump_json(arguments);
  const Json& extra = json_member(call, "extra_content");  // Gemini's signature of its reasoning
  if (!extra.is_null()) block.opaque = dump_json({{"extra_content", extra}});
}

// The block of the call that a piece belongs to. A piece with a name begins a new call when it has
// another id, or when the call that it would continue is complete.
size_t OpenaiDecoder::block_for(const Json& call, const std::string& id, const std::string& name) {
  std::optional<int64_t> index;
  if (json_member(call, "index").is_number_integer()) index = json_int(call, "index");
  const auto is_same = [&](const Call& known) {
    if (index) return known.index == index;
    if (!id.empty()) return reply_.blocks[known.block].call.id == id;
    return name.empty();
  };
  const auto at = std::find_if(calls_.rbegin(), calls_.rend(), is_same);
  if (at != calls_.rend()) {
    const ToolCall& known = reply_.blocks[at->block].call;
    const bool other_id = !id.empty() && !known.id.empty() && known.id != id;
    const bool gives_more = !json_string(json_member(call, "function"), "arguments").empty() ||
                            json_member(json_member(call, "function"), "arguments").is_object();
    const bool begins =
        !name.empty() && (other_id || (gives_more && is_object_text(known.arguments)));
    if (!begins) return at->block;
  }
  reply_.blocks.push_back({.kind = Kind::call, .text = "", .opaque = "", .call = {}});
  calls_.push_back({index, reply_.blocks.size() - 1});
  return calls_.back().block;
}

Status OpenaiDecoder::take_finish(std::string_view reason) {
  if (reason == "error" || reason == "abort" || reason == "insufficient_system_resource") {
    ModelFailure failure;
    failure.fault =
        reason == "error" || reason == "abort" ? ModelFault::server : ModelFault::overloaded;
    failure.what = fmt::format("The server broke off its answer: {}.", reason);
    return report(std::move(failure), reply_.usage);
  }
  done_ = true;
  if (reason == "length" || reason == "model_length" || reason == "max_tokens")
    reply_.stop = ChatStop::length;
  else if (reason == "content_filter")
    reply_.stop = ChatStop::content_filter;
  return {};
}

void OpenaiDecoder::take_usage(const Json& usage) {
  if (!json_member(usage, "prompt_tokens").is_number_integer() &&
      !json_member(usage, "completion_tokens").is_number_integer())
    return;
  const Json& details = json_member(usage, "prompt_tokens_details");
  Usage& known = reply_.usage;
  known.known = true;
  known.output = token_count(usage, "completion_tokens");
  // DeepSeek and Moonshot have names of their own for what came from the cache.
  const int64_t hit = token_count(usage, "prompt_cache_hit_tokens");
  known.cache_read =
      token_count(details, "cached_tokens", std::max(hit, token_count(usage, "cached_tokens")));
  known.cache_write = token_count(details, "cache_write_tokens");
  known.input = std::max<int64_t>(
      0, token_count(usage, "prompt_tokens") - known.cache_read - known.cache_write);
}

void OpenaiDecoder::add(Kind kind, const std::string& text) {
  if (text.empty()) return;
  if (reply_.blocks.empty() || reply_.blocks.back().kind != kind)
    reply_.blocks.push_back({.kind = kind, .text = "", .opaque = "", .call = {}});
  reply_.blocks.back().text += text;
  say(kind, text);
}

ChatReply OpenaiDecoder::reply() const {
  ChatReply reply = reply_;
  const bool has_calls = !calls_.empty();
  if (has_calls && reply.stop == ChatStop::end) reply.stop = ChatStop::calls;
  complete_bare_calls(reply);
  for (ChatBlock& block : reply.blocks) {
    if (block.kind == Kind::reasoning && !reasoning_name_.empty())
      block.opaque = dump_json({{"as", reasoning_name_}});
  }
  if (details_.empty()) return reply;
  // All of them with the first reasoning: a message has one list of them.
  auto at = std::ranges::find(reply.blocks, Kind::reasoning, &ChatBlock::kind);
  if (at == reply.blocks.end())
    at = reply.blocks.insert(reply.blocks.begin(),
                             {.kind = Kind::reasoning, .text = "", .opaque = "", .call = {}});
  Json opaque = object_or_empty(at->opaque);
  opaque["reasoning_details"] = details_;
  at->opaque = dump_json(opaque);
  return reply;
}

}  // namespace

std::unique_ptr<ReplyDecoder> make_openai_decoder(OnDelta on_delta) {
  return std::make_unique<OpenaiDecoder>(std::move(on_delta));
}

}  // namespace marathon
