// Anthropic's messages: the request.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "agent/wire.h"

namespace marathon {

namespace {

constexpr size_t max_message_marks = 3;  // the API takes four; one is the system prompt's

// What the decoder kept of a block that this side does not understand: it has the block's type.
bool is_whole_block(const Json& opaque) { return !json_string(opaque, "type").empty(); }

// The API refuses text without a letter, and thinking that it did not sign.
bool is_sent(const ChatBlock& block) {
  switch (block.kind) {
    case ChatBlock::Kind::text:
      return !is_blank(block.text);
    case ChatBlock::Kind::call:
      return true;
    case ChatBlock::Kind::reasoning: {
      const Json opaque = object_or_empty(block.opaque);
      return is_whole_block(opaque) || !json_string(opaque, "signature").empty();
    }
  }
  return false;
}

Json block_of(const ChatBlock& block) {
  Json json = object_or_empty(block.opaque);
  switch (block.kind) {
    case ChatBlock::Kind::text:
      if (!json.contains("citations")) json = Json::object();  // another server's
      json["type"] = "text";
      json["text"] = block.text;
      break;
    case ChatBlock::Kind::reasoning:
      if (is_whole_block(json)) break;
      json["type"] = "thinking";
      json["thinking"] = block.text;
      break;
    case ChatBlock::Kind::call:
      json.erase("extra_content");  // another server's
      json["type"] = "tool_use";
      json["id"] = wire_id(block.call.id);
      json["name"] = wire_name(block.call.name);
      json["input"] = object_or_empty(block.call.arguments);
      break;
  }
  return json;
}

Json result_of(const ChatResult& result) {
  Json json = {{"type", "tool_result"},
               {"tool_use_id", wire_id(result.call)},
               {"content", is_blank(result.text) ? "(empty)" : result.text}};
  if (!result.ok) json["is_error"] = true;
  return json;
}

Json text_of(std::string_view text) { return {{"type", "text"}, {"text", text}}; }

// Messages, and where somebody asked for a mark: message and block.
struct Messages {
  Json json = Json::array();
  std::vector<std::pair<size_t, size_t>> marks;
};

// Thinking carries no mark of its own.
bool takes_mark(const Json& block) { return !json_string(block, "type").ends_with("thinking"); }

void add_turn(Messages& messages, const WireTurn& turn) {
  Json content = Json::array();
  const auto mark = [&] {
    if (!content.empty() && takes_mark(content.back()))
      messages.marks.emplace_back(messages.json.size(), content.size() - 1);
  };
  for (const ChatBlock* block : turn.blocks) content.push_back(block_of(*block));
  for (const ChatResult& result : turn.results) content.push_back(result_of(result));
  if (turn.cache) mark();
  for (const WireText& piece : turn.texts) {
    content.push_back(text_of(piece.text));
    if (piece.cache) mark();
  }
  messages.json.push_back({{"role", turn.assistant ? "assistant" : "user"}, {"content", content}});
}

Json messages_of(const ChatRequest& request) {
  Messages messages;
  for (const WireTurn& turn : alternate(request.messages, is_sent)) {
    if (messages.json.empty() && turn.assistant)  // the API wants the user's side first
      messages.json.push_back({{"role", "user"}, {"content", Json::array({text_of("Begin.")})}});
    add_turn(messages, turn);
  }
  const size_t kept = std::min(messages.marks.size(), max_message_marks);
  for (size_t i = messages.marks.size() - kept; i < messages.marks.size(); ++i) {
    const auto [message, block] = messages.marks[i];
    messages.json[message]["content"][block]["cache_control"] = {{"type", "ephemeral"}};
  }
  return std::move(messages.json);
}

Json tool_of(const ChatTool& tool) {
  Json schema = object_or_empty(tool.parameters);
  if (!schema.contains("type")) schema["type"] = "object";
  return {{"name", tool.name}, {"description", tool.description}, {"input_schema", schema}};
}

}  // namespace

std::string encode_anthropic(const ChatRequest& request) {
  Json body = object_or_empty(request.extra);
  if (!body.contains("max_tokens")) body["max_tokens"] = request.max_output_tokens;
  drop_nulls(body);
  body["model"] = request.model;
  body["stream"] = true;
  body["messages"] = messages_of(request);
  if (!request.tools.empty()) body["tools"] = Json::array();
  for (const ChatTool& tool : request.tools) body["tools"].push_back(tool_of(tool));
  // What is marked includes all before it; the tools stand before the system prompt.
  if (!is_blank(request.system)) {
    body["system"] = Json::array({text_of(request.system)});
    body["system"][0]["cache_control"] = {{"type", "ephemeral"}};
  } else if (!request.tools.empty()) {
    body["tools"].back()["cache_control"] = {{"type", "ephemeral"}};
  }
  return dump_json(body);
}

}  // namespace marathon
