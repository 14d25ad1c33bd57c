// Anthropic's messages: the answer. Blocks and events that this side does not know are kept or
// skipped: the API says that there will be more of them.
#include <fmt/format.h>

#include <array>
#include <map>
#include <nlohmann/json.hpp>

#include "agent/wire.h"

namespace marathon {

namespace {

using Kind = ChatBlock::Kind;

struct Block {
  Json json;  // as it began, with what deltas added; without text and arguments
  std::string type, text, arguments;
};

// Everything but `own`, which this side keeps in fields; "" when nothing is left.
std::string rest_of(Json json, std::initializer_list<const char*> own) {
  for (const char* key : own) json.erase(key);
  for (Json::iterator at = json.begin(); at != json.end();)
    at = at->is_null() || at->empty() ? json.erase(at) : std::next(at);
  return json.empty() ? "" : dump_json(json);
}

ChatBlock chat_block_of(const Block& block) {
  ChatBlock chat;
  chat.text = block.text;
  if (block.type == "text") {
    chat.opaque = rest_of(block.json, {"type", "text"});
  } else if (block.type == "thinking") {
    chat.kind = Kind::reasoning;
    chat.opaque = rest_of(block.json, {"type", "thinking"});
  } else if (block.type == "tool_use") {
    chat.kind = Kind::call;
    chat.opaque = rest_of(block.json, {"type", "id", "name", "input"});
    const Json& input = json_member(block.json, "input");
    const bool has_input = input.is_object() && !input.empty();
    chat.call = {json_string(block.json, "id"), json_string(block.json, "name"),
                 block.arguments.empty() && has_input ? dump_json(input) : block.arguments};
  } else {  // redacted thinking, tools of the server and what is yet to come: back as it is
    chat.kind = Kind::reasoning;
    Json whole = block.json;
    const Result<Json> input = parse_json(block.arguments);
    if (input && input->is_object()) whole["input"] = *input;
    chat.opaque = dump_json(whole);
  }
  return chat;
}

class AnthropicDecoder : public WireDecoder {
 public:
  explicit AnthropicDecoder(OnDelta on_delta) : WireDecoder(std::move(on_delta)) {}

  Status feed(const SseEvent& event) override;
  Status take_whole(std::string_view body) override;
  ChatReply reply() const override;

 private:
  void take_message(const Json& message);
  Status start_block(const Json& event);
  void start_block(const Json& content, int64_t index);
  Status take_delta(const Json& event);
  bool apply(Block& block, const Json& delta);
  void take_stop(const Json& holder);
  void take_usage(const Json& usage);

  std::string id_, model_, stop_reason_;
  Usage usage_;
  std::vector<Block> blocks_;
  std::map<int64_t, size_t> open_;  // index in the stream → blocks_
};

constexpr std::array<std::string_view, 7> known_events = {"message_start",
                                                          "content_block_start",
                                                          "content_block_delta",
                                                          "content_block_stop",
                                                          "message_delta",
                                                          "message_stop",
                                                          "error"};

Status AnthropicDecoder::feed(const SseEvent& event) {
  if (failure_) return fail(Fault::retry, failure_->what);
  if (is_blank(event.data)) return {};
  if (event.type == "error")
    return report(classify_error_body(WireApi::anthropic, 0, event.data), usage_);
  const bool is_known = event.type.empty() || std::ranges::count(known_events, event.type) > 0;
  if (!is_known) return {};
  const Result<Json> json = parse_json(event.data);
  if (!json || !json->is_object()) {
    return fail(Fault::invalid, fmt::format("a piece of the model's answer is {}",
                                            json ? "not a JSON object" : json.error().what));
  }
  const std::string type = json_string(*json, "type", event.type);
  if (type == "error")
    return report(classify_error_body(WireApi::anthropic, 0, event.data), usage_);
  if (type == "message_start") take_message(json_member(*json, "message"));
  if (type == "content_block_start") return start_block(*json);
  if (type == "content_block_delta") return take_delta(*json);
  if (type == "message_delta") {
    take_stop(json_member(*json, "delta"));
    take_usage(json_member(*json, "usage"));
  }
  if (type == "message_stop") done_ = true;
  return {};
}

Status AnthropicDecoder::take_whole(std::string_view body) {
  const Result<Json> json = parse_json(body);
  if (!json)
    return fail(Fault::invalid, fmt::format("the model's answer is {}", json.error().what));
  if (json_string(*json, "type") == "error" || !json_member(*json, "error").is_null())
    return report(classify_error_body(WireApi::anthropic, 0, body), usage_);
  const Json& content = json_member(*json, "content");
  if (!content.is_array())
    return fail(Fault::invalid, "the model's answer has no list 'content', so it is no message");
  take_message(*json);
  done_ = true;
  return {};
}

// The content is empty where a stream begins.
void AnthropicDecoder::take_message(const Json& message) {
  id_ = json_string(message, "id");
  model_ = json_string(message, "model");
  take_usage(json_member(message, "usage"));
  take_stop(message);
  const Json& content = json_member(message, "content");
  if (!content.is_array()) return;
  for (const Json& block : content) start_block(block, std::ssize(blocks_));
}

Status AnthropicDecoder::start_block(const Json& event) {
  const Json& content = json_member(event, "content_block");
  if (!content.is_object())
    return fail(Fault::invalid, "a block of the model's answer begins without its content");
  start_block(content, json_int(event, "index", std::ssize(blocks_)));
  return {};
}

void AnthropicDecoder::start_block(const Json& content, int64_t index) {
  if (!content.is_object()) return;
  Block block = {content, json_string(content, "type"), "", ""};
  if (block.type == "text") block.text = json_string(content, "text");
  if (block.type == "thinking") block.text = json_string(content, "thinking");
  say(block.type == "text" ? Kind::text : Kind::reasoning, block.text);
  blocks_.push_back(std::move(block));
  open_[index] = blocks_.size() - 1;
}

Status AnthropicDecoder::take_delta(const Json& event) {
  const auto at = open_.find(json_int(event, "index", std::ssize(blocks_) - 1));
  if (at == open_.end()) {
    return fail(Fault::invalid,
                "a piece of the model's answer belongs to a block that did not begin");
  }
  const Json& delta = json_member(event, "delta");
  if (!delta.is_object() || !apply(blocks_[at->second], delta))
    return fail(Fault::invalid, fmt::format("a piece of type '{}' came for a block of type '{}'",
                                            json_string(delta, "type"), blocks_[at->second].type));
  return {};
}

// False when the piece is of a known type and its block is of another.
bool AnthropicDecoder::apply(Block& block, const Json& delta) {
  const std::string type = json_string(delta, "type");
  if (type == "text_delta" && block.type == "text") {
    const std::string text = json_string(delta, "text");
    block.text += text;
    say(Kind::text, text);
    return true;
  }
  if (type == "thinking_delta" && block.type == "thinking") {
    const std::string text = json_string(delta, "thinking");
    block.text += text;
    say(Kind::reasoning, text);
    return true;
  }
  if (type == "input_json_delta" && block.type != "text" && block.type != "thinking") {
    block.arguments += json_string(delta, "partial_json");
    return true;
  }
  if (type == "signature_delta" && block.type == "thinking") {
    block.json["signature"] = json_string(delta, "signature");
    return true;
  }
  if (type == "citations_delta" && block.type == "text") {
    if (!json_member(block.json, "citations").is_array()) block.json["citations"] = Json::array();
    block.json["citations"].push_back(json_member(delta, "citation"));
    return true;
  }
  const bool is_known_block =
      block.type == "text" || block.type == "thinking" || block.type == "tool_use";
  if (is_known_block) {
    return type != "text_delta" && type != "thinking_delta" && type != "input_json_delta";
  }
  // A block that only goes back: text grows, anything else is replaced.
  for (const auto& [key, value] : delta.items()) {
    if (key == "type" || value.is_null()) continue;
    const bool grows = value.is_string() && json_member(block.json, key).is_string();
    block.json[key] = grows ? Json(json_string(block.json, key) + value.get<std::string>()) : value;
  }
  return true;
}

// With a stop reason the answer is whole; only message_stop is still to come.
void AnthropicDecoder::take_stop(const Json& holder) {
  const std::string reason = json_string(holder, "stop_reason");
  if (reason.empty()) return;
  stop_reason_ = reason;
  done_ = true;
}

// Counts are cumulative; those that an event does not name stay.
void AnthropicDecoder::take_usage(const Json& usage) {
  if (!usage.is_object()) return;
  usage_.known = usage_.known || json_member(usage, "output_tokens").is_number_integer();
  usage_.input = token_count(usage, "input_tokens", usage_.input);
  usage_.cache_read = token_count(usage, "cache_read_input_tokens", usage_.cache_read);
  usage_.cache_write = token_count(usage, "cache_creation_input_tokens", usage_.cache_write);
  usage_.output = token_count(usage, "output_tokens", usage_.output);
}

ChatStop stop_of(std::string_view reason, bool has_calls) {
  if (reason == "max_tokens" || reason == "model_context_window_exceeded") return ChatStop::length;
  if (reason == "refusal") return ChatStop::content_filter;
  if (reason == "pause_turn" || reason == "compaction") return ChatStop::paused;
  return has_calls ? ChatStop::calls : ChatStop::end;
}

ChatReply AnthropicDecoder::reply() const {
  ChatReply reply;
  reply.id = id_;
  reply.model = model_;
  reply.usage = usage_;
  bool has_calls = false;
  for (const Block& block : blocks_) {
    ChatBlock chat = chat_block_of(block);
    const bool says_nothing = chat.kind != Kind::call && chat.text.empty() && chat.opaque.empty();
    if (says_nothing) continue;
    has_calls = has_calls || chat.kind == Kind::call;
    reply.blocks.push_back(std::move(chat));
  }
  reply.stop = stop_of(stop_reason_, has_calls);
  complete_bare_calls(reply);
  return reply;
}

}  // namespace

std::unique_ptr<ReplyDecoder> make_anthropic_decoder(OnDelta on_delta) {
  return std::make_unique<AnthropicDecoder>(std::move(on_delta));
}

}  // namespace marathon
