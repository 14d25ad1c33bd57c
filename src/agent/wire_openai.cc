// OpenAI's chat completions: the request. Many servers speak it, so it holds only what they share.
#include <nlohmann/json.hpp>

#include "agent/wire.h"

namespace marathon {

namespace {

// Reasoning goes back only to a server that gave it in this format: under the name that it had
// ("as"), with the blocks that the server cannot read from the text (reasoning_details).
bool is_sent(const ChatBlock& block) {
  switch (block.kind) {
    case ChatBlock::Kind::text:
      return !block.text.empty();
    case ChatBlock::Kind::call:
      return true;
    case ChatBlock::Kind::reasoning: {
      const Json opaque = object_or_empty(block.opaque);
      return opaque.contains("as") || opaque.contains("reasoning_details");
    }
  }
  return false;
}

Json call_of(const ChatBlock& block) {
  const Result<Json> arguments = parse_json(block.call.arguments);
  const bool usable = arguments && arguments->is_object();
  Json call = {{"id", block.call.id},
               {"type", "function"},
               {"function",
                {{"name", wire_name(block.call.name)},
                 {"arguments", usable ? block.call.arguments : "{}"}}}};
  const Json opaque = object_or_empty(block.opaque);
  if (opaque.contains("extra_content")) call["extra_content"] = opaque["extra_content"];
  return call;
}

void add_reasoning(Json& message, const ChatBlock& block) {
  const Json opaque = object_or_empty(block.opaque);
  const std::string as = json_string(opaque, "as");
  if (as == "reasoning" || as == "reasoning_content")
    message[as] = json_string(message, as) + block.text;
  if (!opaque.contains("reasoning_details")) return;
  Json& details = message["reasoning_details"];
  for (const Json& detail : opaque["reasoning_details"]) details.push_back(detail);
}

Json answer_of(const WireTurn& turn) {
  Json message = {{"role", "assistant"}, {"content", nullptr}};
  std::string text;
  for (const ChatBlock* block : turn.blocks) {
    switch (block->kind) {
      case ChatBlock::Kind::text:
        text += block->text;
        break;
      case ChatBlock::Kind::call:
        message["tool_calls"].push_back(call_of(*block));
        break;
      case ChatBlock::Kind::reasoning:
        add_reasoning(message, *block);
        break;
    }
  }
  if (!text.empty() || !message.contains("tool_calls")) message["content"] = text;
  return message;
}

void add_user_side(Json& messages, const WireTurn& turn) {
  for (const ChatResult& result : turn.results) {
    messages.push_back({{"role", "tool"}, {"tool_call_id", result.call}, {"content", result.text}});
  }
  // One message: the chat templates of some models refuse two of one side.
  std::string text;
  for (const WireText& piece : turn.texts) text += (text.empty() ? "" : "\n\n") + piece.text;
  if (!text.empty()) messages.push_back({{"role", "user"}, {"content", text}});
}

Json tool_of(const ChatTool& tool) {
  return {{"type", "function"},
          {"function",
           {{"name", tool.name},
            {"description", tool.description},
            {"parameters", object_or_empty(tool.parameters)}}}};
}

// OpenAI's own newer models refuse max_tokens; most other servers know nothing else.
std::string_view limit_name(std::string_view model) {
  const size_t slash = model.rfind('/');
  if (slash != std::string_view::npos) model.remove_prefix(slash + 1);
  const auto digit_at = [&](size_t i, char from) {
    return model.size() > i && model[i] >= from && model[i] <= '9';
  };
  const bool is_newer = (model.starts_with("o") && digit_at(1, '1')) ||
                        (model.starts_with("gpt-") && digit_at(4, '5'));
  return is_newer ? "max_completion_tokens" : "max_tokens";
}

}  // namespace

std::string encode_openai(const ChatRequest& request) {
  Json body = object_or_empty(request.extra);
  if (!body.contains("max_tokens") && !body.contains("max_completion_tokens"))
    body[std::string(limit_name(request.model))] = request.max_output_tokens;
  if (!body.contains("stream_options")) body["stream_options"] = {{"include_usage", true}};
  drop_nulls(body);
  body["model"] = request.model;
  body["stream"] = true;
  Json messages = Json::array();
  if (!request.system.empty())
    messages.push_back({{"role", "system"}, {"content", request.system}});
  for (const WireTurn& turn : alternate(request.messages, is_sent)) {
    if (turn.assistant)
      messages.push_back(answer_of(turn));
    else
      add_user_side(messages, turn);
  }
  body["messages"] = std::move(messages);
  if (!request.tools.empty()) body["tools"] = Json::array();
  for (const ChatTool& tool : request.tools) body["tools"].push_back(tool_of(tool));
  return dump_json(body);
}

}  // namespace marathon
