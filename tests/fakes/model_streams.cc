// An answer in the words of the two APIs, written from their documents and not from our code.
#include <nlohmann/json.hpp>

#include "fakes/model_play.h"

namespace marathon::fake {

namespace {

using Json = nlohmann::ordered_json;

// Two pieces, so that whoever reads must join them.
std::vector<std::string> halves(const std::string& text) {
  size_t middle = text.size() / 2;
  while (middle < text.size() && (static_cast<unsigned char>(text[middle]) & 0xC0) == 0x80)
    ++middle;
  return {text.substr(0, middle), text.substr(middle)};
}

// ---- OpenAI

Json openai_usage(const ScriptedAnswer& answer) {
  const int64_t prompt = answer.input_tokens + answer.cached_tokens;
  return {{"prompt_tokens", prompt},
          {"completion_tokens", answer.output_tokens},
          {"total_tokens", prompt + answer.output_tokens},
          {"prompt_tokens_details", {{"cached_tokens", answer.cached_tokens}}}};
}

Json openai_frame(const char* object) {
  return {{"id", "chatcmpl-1"}, {"object", object}, {"created", 1700000000}, {"model", "fake-1"}};
}

std::string openai_stop(const ScriptedAnswer& answer, const std::string& stop) {
  if (!stop.empty()) return stop;
  return answer.calls.empty() ? "stop" : "tool_calls";
}

class OpenAiStream {
 public:
  void delta(const Json& delta, const Json& finish = nullptr) {
    Json chunk = openai_frame("chat.completion.chunk");
    chunk["choices"] = Json::array({{{"index", 0}, {"delta", delta}, {"finish_reason", finish}}});
    push(chunk);
  }
  void push(const Json& chunk) { events.push_back({"", chunk.dump()}); }
  std::vector<StreamEvent> events;
};

std::vector<StreamEvent> openai_stream(const ScriptedAnswer& answer, const StreamChoice& choice) {
  OpenAiStream stream;
  stream.delta({{"role", "assistant"}, {"content", ""}});
  if (!answer.reasoning.empty()) {
    for (const std::string& half : halves(answer.reasoning))
      stream.delta({{"reasoning_content", half}});
  }
  if (!answer.text.empty()) {
    for (const std::string& half : halves(answer.text)) stream.delta({{"content", half}});
  }
  for (size_t i = 0; i < answer.calls.size(); ++i) {
    const ScriptedCall& call = answer.calls[i];
    stream.delta(
        {{"tool_calls", Json::array({{{"index", i},
                                      {"id", call.id},
                                      {"type", "function"},
                                      {"function", {{"name", call.name}, {"arguments", ""}}}}})}});
    for (const std::string& half : halves(call.arguments))
      stream.delta(
          {{"tool_calls", Json::array({{{"index", i}, {"function", {{"arguments", half}}}}})}});
  }
  stream.delta(Json::object(), openai_stop(answer, choice.stop));
  if (choice.usage) {
    Json chunk = openai_frame("chat.completion.chunk");
    chunk["choices"] = Json::array();
    chunk["usage"] = openai_usage(answer);
    stream.push(chunk);
  }
  stream.events.push_back({"", "[DONE]"});
  return stream.events;
}

std::string openai_whole(const ScriptedAnswer& answer) {
  Json message = {{"role", "assistant"}, {"content", answer.text}};
  if (!answer.reasoning.empty()) message["reasoning_content"] = answer.reasoning;
  for (const ScriptedCall& call : answer.calls)
    message["tool_calls"].push_back(
        {{"id", call.id},
         {"type", "function"},
         {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
  Json whole = openai_frame("chat.completion");
  whole["choices"] = Json::array(
      {{{"index", 0}, {"message", message}, {"finish_reason", openai_stop(answer, "")}}});
  whole["usage"] = openai_usage(answer);
  return whole.dump();
}

// ---- Anthropic

Json anthropic_message(const ScriptedAnswer& answer, bool usage, int64_t output_tokens) {
  Json message = {{"id", "msg_1"},           {"type", "message"},        {"role", "assistant"},
                  {"model", "fake-1"},       {"content", Json::array()}, {"stop_reason", nullptr},
                  {"stop_sequence", nullptr}};
  if (usage)
    message["usage"] = {{"input_tokens", answer.input_tokens},
                        {"cache_creation_input_tokens", 0},
                        {"cache_read_input_tokens", answer.cached_tokens},
                        {"output_tokens", output_tokens}};
  return message;
}

std::string anthropic_stop(const ScriptedAnswer& answer, const std::string& stop) {
  if (!stop.empty()) return stop;
  return answer.calls.empty() ? "end_turn" : "tool_use";
}

class AnthropicStream {
 public:
  void push(const std::string& type, Json data) {
    Json event = {{"type", type}};
    event.update(data);
    events.push_back({type, event.dump()});
  }
  // `kind`_delta with the field `field` for each half of the text, and what `last` adds.
  void block(const Json& start, const char* delta, const char* field, const std::string& text,
             const Json& last = nullptr) {
    push("content_block_start", {{"index", index_}, {"content_block", start}});
    for (const std::string& half : halves(text))
      push("content_block_delta", {{"index", index_}, {"delta", {{"type", delta}, {field, half}}}});
    if (!last.is_null()) push("content_block_delta", {{"index", index_}, {"delta", last}});
    push("content_block_stop", {{"index", index_++}});
  }
  std::vector<StreamEvent> events;

 private:
  int index_ = 0;
};

std::vector<StreamEvent> anthropic_stream(const ScriptedAnswer& answer,
                                          const StreamChoice& choice) {
  AnthropicStream stream;
  stream.push("message_start", {{"message", anthropic_message(answer, choice.usage, 1)}});
  stream.push("ping", Json::object());
  if (!answer.reasoning.empty())
    stream.block({{"type", "thinking"}, {"thinking", ""}, {"signature", ""}}, "thinking_delta",
                 "thinking", answer.reasoning,
                 {{"type", "signature_delta"}, {"signature", "c2lnbmVk"}});
  if (!answer.text.empty())
    stream.block({{"type", "text"}, {"text", ""}}, "text_delta", "text", answer.text);
  for (const ScriptedCall& call : answer.calls)
    stream.block(
        {{"type", "tool_use"}, {"id", call.id}, {"name", call.name}, {"input", Json::object()}},
        "input_json_delta", "partial_json", call.arguments);
  Json end = {{"delta",
               {{"stop_reason", anthropic_stop(answer, choice.stop)}, {"stop_sequence", nullptr}}}};
  if (choice.usage) end["usage"] = {{"output_tokens", answer.output_tokens}};
  stream.push("message_delta", end);
  stream.push("message_stop", Json::object());
  return stream.events;
}

std::string anthropic_whole(const ScriptedAnswer& answer) {
  Json message = anthropic_message(answer, true, answer.output_tokens);
  Json& content = message["content"];
  if (!answer.reasoning.empty())
    content.push_back(
        {{"type", "thinking"}, {"thinking", answer.reasoning}, {"signature", "c2lnbmVk"}});
  if (!answer.text.empty()) content.push_back({{"type", "text"}, {"text", answer.text}});
  for (const ScriptedCall& call : answer.calls)
    content.push_back({{"type", "tool_use"},
                       {"id", call.id},
                       {"name", call.name},
                       {"input", Json::parse(call.arguments)}});
  message["stop_reason"] = anthropic_stop(answer, "");
  return message.dump();
}

}  // namespace

std::vector<StreamEvent> stream_of(bool anthropic, const ScriptedAnswer& answer,
                                   const StreamChoice& choice) {
  return anthropic ? anthropic_stream(answer, choice) : openai_stream(answer, choice);
}

std::string whole_of(bool anthropic, const ScriptedAnswer& answer) {
  return anthropic ? anthropic_whole(answer) : openai_whole(answer);
}

std::string sse_text(const std::vector<StreamEvent>& events, std::string_view line_end) {
  std::string text;
  for (const StreamEvent& event : events) {
    if (!event.type.empty()) text.append("event: ").append(event.type).append(line_end);
    text.append("data: ").append(event.data).append(line_end).append(line_end);
  }
  return text;
}

}  // namespace marathon::fake
