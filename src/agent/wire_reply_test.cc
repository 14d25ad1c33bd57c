// Answers: each stream tests/golden/wire/NAME.sse gives NAME.reply.json. Between them the streams
// hold every event, block, piece and reason to stop that the two APIs document.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "agent/wire.h"
#include "base/file.h"

namespace marathon {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Kind = ChatBlock::Kind;

std::filesystem::path golden_folder() {
  return std::filesystem::path(MARATHON_SOURCE_DIR) / "tests/golden/wire";
}

std::vector<SseEvent> events_of(std::string_view stream) {
  std::vector<SseEvent> events(1);
  while (!stream.empty()) {
    const std::string_view line = stream.substr(0, stream.find('\n'));
    stream.remove_prefix(std::min(line.size() + 1, stream.size()));
    if (line.empty() && !events.back().data.empty()) events.emplace_back();
    if (line.starts_with("event: ")) events.back().type = line.substr(7);
    if (line.starts_with("data: ")) events.back().data += line.substr(6);
  }
  if (events.back().data.empty()) events.pop_back();
  return events;
}

std::vector<SseEvent> golden_events(const std::string& name) {
  const Result<std::string> stream = read_file(golden_folder() / (name + ".sse"));
  EXPECT_TRUE(stream) << name;
  return events_of(stream.value_or(""));
}

WireApi api_of(std::string_view name) {
  return name.starts_with("openai") ? WireApi::openai : WireApi::anthropic;
}

Json json_of(const ChatReply& reply) {
  Json json = {{"id", reply.id}, {"model", reply.model}, {"stop", to_string(reply.stop)}};
  json["blocks"] = Json::array();
  for (const ChatBlock& block : reply.blocks) {
    Json one;
    if (block.kind == Kind::call) {
      one["call"] = {block.call.id, block.call.name, block.call.arguments};
      EXPECT_EQ(block.text, "");
    } else {
      one[block.kind == Kind::text ? "text" : "reasoning"] = block.text;
    }
    if (!block.opaque.empty()) {
      const Result<Json> opaque = parse_json(block.opaque);
      EXPECT_TRUE(opaque) << block.opaque;
      one["opaque"] = opaque.value_or(Json());
    }
    json["blocks"].push_back(one);
  }
  if (reply.usage.known) {
    json["usage"] = {{"input", reply.usage.input},
                     {"cache_read", reply.usage.cache_read},
                     {"cache_write", reply.usage.cache_write},
                     {"output", reply.usage.output}};
  }
  return json;
}

struct Decoded {
  Json json;
  std::string text, reasoning;  // as on_delta told them
};

Decoded decode(WireApi api, const std::vector<SseEvent>& events) {
  Decoded decoded;
  const std::unique_ptr<ReplyDecoder> decoder =
      make_reply_decoder(api, [&](Kind kind, std::string_view piece) {
        (kind == Kind::text ? decoded.text : decoded.reasoning) += piece;
      });
  for (const SseEvent& event : events) {
    const Status status = decoder->feed(event);
    EXPECT_EQ(status.has_value(), !decoder->failure().has_value()) << event.data;
    if (!status) {
      EXPECT_EQ(status.error().fault, Fault::retry) << event.data;
    }
  }
  decoded.json = json_of(decoder->reply());
  decoded.json["done"] = decoder->done();
  if (decoder->failure()) {
    decoded.json["failure"] = {to_string(decoder->failure()->fault), decoder->failure()->what};
    EXPECT_EQ(decoder->failure()->usage.output, decoder->reply().usage.output);
    EXPECT_EQ(decoder->failure()->usage.known, decoder->reply().usage.known);
  }
  return decoded;
}

TEST(WireReply, EveryStreamDecodesAsItMust) {
  int64_t streams = 0;
  for (const std::filesystem::directory_entry& entry :
       std::filesystem::directory_iterator(golden_folder())) {
    if (entry.path().extension() != ".sse") continue;
    const std::string name = entry.path().stem();
    SCOPED_TRACE(name);
    ++streams;
    const std::vector<SseEvent> events = golden_events(name);
    const Decoded decoded = decode(api_of(name), events);
    const std::string text = dump_json_pretty(decoded.json) + "\n";
    const std::filesystem::path file = golden_folder() / (name + ".reply.json");
    if (std::getenv("MARATHON_RENEW_GOLDEN") != nullptr) {
      ASSERT_TRUE(write_file(file, text));
    }
    const Result<std::string> golden = read_file(file);
    ASSERT_TRUE(golden) << "no golden file; run with MARATHON_RENEW_GOLDEN=1 and commit it";
    EXPECT_EQ(*golden, text);
    std::string said, thought;
    for (const Json& block : decoded.json["blocks"]) {
      said += json_string(block, "text");
      thought += json_string(block, "reasoning");
    }
    EXPECT_EQ(decoded.text, said);
    EXPECT_EQ(decoded.reasoning, thought);
  }
  EXPECT_EQ(streams, 39);
}

// A stream that is cut gives what came, and its text is the beginning of the whole's.
TEST(WireReply, IsValidAfterEveryEvent) {
  for (const char* name : {"openai_every_field", "openai_parallel_calls", "openai_openrouter",
                           "anthropic_thinking_and_calls", "anthropic_server_blocks"}) {
    const std::vector<SseEvent> events = golden_events(name);
    const std::string whole = decode(api_of(name), events).text;
    for (size_t cut = 0; cut + 2 < events.size(); ++cut) {
      const Decoded part = decode(api_of(name), {events.begin(), events.begin() + cut});
      EXPECT_TRUE(whole.starts_with(part.text));
    }
    EXPECT_EQ(decode(api_of(name), {events.begin(), events.begin() + 2}).json["done"], false);
  }
}

// What one answer gives stands in the next request as the API wants it.
TEST(WireReply, GoesBackUnchanged) {
  const auto sent_back = [](const std::string& name) {
    const std::unique_ptr<ReplyDecoder> decoder = make_reply_decoder(api_of(name), nullptr);
    for (const SseEvent& event : golden_events(name)) EXPECT_TRUE(decoder->feed(event));
    ChatRequest request;
    ChatMessage question, answer;
    question.text = "Begin.";
    answer.assistant = true;
    answer.blocks = decoder->reply().blocks;
    request.messages = {question, answer};
    const Result<Json> body = parse_json(encode_request(api_of(name), request));
    return body ? dump_json((*body)["messages"][1]) : body.error().what;
  };
  EXPECT_EQ(
      sent_back("anthropic_thinking_and_calls"),
      R"({"content":[{"signature":"c2ln","thinking":"Let me see.","type":"thinking"},)"
      R"({"data":"ZW5j","type":"redacted_thinking"},{"text":"Grüße, ∑.","type":"text"},)"
      R"({"id":"toolu_1","input":{"path":"a.cc"},"name":"read_file","type":"tool_use"},)"
      R"({"caller":{"type":"direct"},"id":"toolu_2","input":{},"name":"status","type":"tool_use"},)"
      R"({"id":"toolu_3","input":{"note":"at once"},"name":"evaluate","type":"tool_use"}],"role":"assistant"})");
  EXPECT_THAT(
      sent_back("anthropic_server_blocks"),
      HasSubstr(
          R"({"caller":{"type":"direct"},"id":"srvtoolu_1","input":{"query":"fast"},"name":"web_search","type":"server_tool_use"})"));
  EXPECT_THAT(sent_back("anthropic_unknown"),
              HasSubstr(R"({"content":"A summary.","type":"compaction"})"));
  EXPECT_EQ(
      sent_back("openai_deepseek"),
      R"({"content":"I measure.","reasoning_content":"I should measure.","role":"assistant",)"
      R"("tool_calls":[{"function":{"arguments":"{}","name":"evaluate"},"id":"call_00_x","type":"function"}]})");
  EXPECT_EQ(
      sent_back("openai_openrouter"),
      R"({"content":"Fine.","reasoning":"Let me see.","reasoning_details":[)"
      R"({"format":"anthropic-claude-v1","index":0,"signature":"c2ln","text":"Let me see.","type":"reasoning.text"},)"
      R"({"data":"ZW5j","format":"openai-responses-v1","id":"rs_1","index":1,"type":"reasoning.encrypted"}],"role":"assistant"})");
  EXPECT_THAT(sent_back("openai_gemini"),
              HasSubstr(R"("extra_content":{"google":{"thought_signature":"eHl6"}})"));
}

TEST(WireReply, ReasonsToStop) {
  const auto stop = [](WireApi api, const std::string& reason) {
    const std::unique_ptr<ReplyDecoder> decoder = make_reply_decoder(api, nullptr);
    const std::string data =
        api == WireApi::openai
            ? R"({"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":")" + reason +
                  R"("}]})"
            : R"({"type":"message_delta","delta":{"stop_reason":")" + reason + R"("}})";
    EXPECT_TRUE(decoder->feed({"", data})) << reason;
    EXPECT_TRUE(decoder->done()) << reason;
    return decoder->reply().stop;
  };
  // The packages' own lists, whole. Without a call there is nothing to wait for.
  const std::pair<const char*, ChatStop> openai[] = {{"stop", ChatStop::end},
                                                     {"length", ChatStop::length},
                                                     {"tool_calls", ChatStop::end},
                                                     {"function_call", ChatStop::end},
                                                     {"content_filter", ChatStop::content_filter},
                                                     {"eos", ChatStop::end},
                                                     {"model_length", ChatStop::length}};
  for (const auto& [reason, expected] : openai) {
    EXPECT_EQ(to_string(stop(WireApi::openai, reason)), to_string(expected)) << reason;
  }
  const std::pair<const char*, ChatStop> anthropic[] = {
      {"end_turn", ChatStop::end},           {"max_tokens", ChatStop::length},
      {"stop_sequence", ChatStop::end},      {"tool_use", ChatStop::end},
      {"pause_turn", ChatStop::paused},      {"compaction", ChatStop::paused},
      {"refusal", ChatStop::content_filter}, {"model_context_window_exceeded", ChatStop::length},
      {"unheard of", ChatStop::end}};
  for (const auto& [reason, expected] : anthropic) {
    EXPECT_EQ(to_string(stop(WireApi::anthropic, reason)), to_string(expected)) << reason;
  }
}

// The same answer as one object, from a server that does not stream.
TEST(WireReply, TakesAWholeObject) {
  const auto whole = [](WireApi api, std::string_view body) {
    std::string said;
    const std::unique_ptr<ReplyDecoder> decoder =
        make_reply_decoder(api, [&](Kind, std::string_view piece) { said += piece; });
    const Status status = decoder->take_whole(body);
    if (!status) return Json(status.error().what);
    Json json = json_of(decoder->reply());
    json["done"] = decoder->done();
    json["said"] = said;
    return json;
  };
  EXPECT_EQ(
      dump_json(whole(
          WireApi::openai,
          R"({"id":"c1","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Yes.","reasoning_content":"Hm.","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{\"n\":1}"}},{"id":"b","type":"function","function":{"name":"g","arguments":"{}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":9,"completion_tokens":4,"prompt_tokens_details":{"cached_tokens":5}}})")),
      R"({"blocks":[{"opaque":{"as":"reasoning_content"},"reasoning":"Hm."},{"text":"Yes."},)"
      R"({"call":["a","f","{\"n\":1}"]},{"call":["b","g","{}"]}],"done":true,"id":"c1","model":"m",)"
      R"("said":"Hm.Yes.","stop":"calls","usage":{"cache_read":5,"cache_write":0,"input":4,"output":4}})");
  EXPECT_EQ(
      dump_json(whole(
          WireApi::anthropic,
          R"({"id":"m1","type":"message","role":"assistant","model":"m","content":[{"type":"thinking","thinking":"Hm.","signature":"s"},{"type":"text","text":"Yes.","citations":null},{"type":"tool_use","id":"a","name":"f","input":{"n":1}}],"stop_reason":"tool_use","usage":{"input_tokens":4,"output_tokens":3}})")),
      R"({"blocks":[{"opaque":{"signature":"s"},"reasoning":"Hm."},{"text":"Yes."},)"
      R"({"call":["a","f","{\"n\":1}"]}],"done":true,"id":"m1","model":"m","said":"Hm.Yes.",)"
      R"("stop":"calls","usage":{"cache_read":0,"cache_write":0,"input":4,"output":3}})");
  EXPECT_EQ(whole(WireApi::openai, R"({"error":{"message":"Oh."}})"),
            "The server (openai API) reported an error: Oh.");
  EXPECT_EQ(
      whole(WireApi::anthropic, R"({"type":"error","error":{"type":"api_error","message":"Oh."}})"),
      "The server (anthropic API) reported an error: Oh.");
  for (const char* wrong : {"", "<html>", "[]", "{}", "null", R"({"choices":[]})"}) {
    for (const WireApi api : {WireApi::openai, WireApi::anthropic}) {
      const std::unique_ptr<ReplyDecoder> decoder = make_reply_decoder(api, nullptr);
      const Status status = decoder->take_whole(wrong);
      ASSERT_FALSE(status) << wrong;
      EXPECT_EQ(status.error().fault, Fault::invalid) << wrong;
      EXPECT_THAT(status.error().what, HasSubstr("the model's answer"));
      EXPECT_FALSE(decoder->done());
      EXPECT_FALSE(decoder->failure());
    }
  }
}

TEST(WireReply, WhatTheApiDoesNotDocumentIsInvalid) {
  const auto fault = [](WireApi api, std::vector<SseEvent> events) {
    const std::unique_ptr<ReplyDecoder> decoder = make_reply_decoder(api, nullptr);
    Status status;
    for (const SseEvent& event : events) {
      EXPECT_TRUE(status);  // only the last one is wrong
      status = decoder->feed(event);
    }
    EXPECT_FALSE(decoder->failure());
    return status ? std::nullopt : std::optional(status.error().fault);
  };
  for (const char* data :
       {"{", "7", "null", "[]", "\"words\"", "{\"choices\":7}", "[DONE", "\xff"}) {
    EXPECT_EQ(fault(WireApi::openai, {{"", data}}), Fault::invalid) << data;
  }
  const SseEvent start = {
      "", R"({"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}})"};
  for (
      const char* data :
      {"{", "7", "null", "[]", "[DONE]", R"({"type":"content_block_start","index":0})",
       R"({"type":"content_block_delta","index":3,"delta":{"type":"text_delta","text":"x"}})",
       R"({"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"x"}})",
       R"({"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"x"}})",
       R"({"type":"content_block_delta","index":0})"}) {
    EXPECT_EQ(fault(WireApi::anthropic, {start, {"", data}}), Fault::invalid) << data;
  }
  // And what only looks so is not.
  for (const char* data :
       {"", " ", "{}", R"({"choices":null})", R"({"choices":[7,null,{}]})",
        R"({"choices":[{"delta":{"content":7,"tool_calls":{},"reasoning":[]}}],"usage":[]})"}) {
    EXPECT_EQ(fault(WireApi::openai, {{"", data}}), std::nullopt) << data;
  }
  for (const char* data : {"", "{}", R"({"type":7})", R"({"type":"message_start"})",
                           R"({"type":"message_delta","delta":7,"usage":7})"}) {
    EXPECT_EQ(fault(WireApi::anthropic, {{"", data}}), std::nullopt) << data;
  }
}

TEST(WireReply, AFailureStaysAndNothingIsTakenBehindIt) {
  for (const WireApi api : {WireApi::openai, WireApi::anthropic}) {
    const std::unique_ptr<ReplyDecoder> decoder = make_reply_decoder(api, nullptr);
    EXPECT_FALSE(decoder->feed({"error", "no JSON, overloaded"}));
    ASSERT_TRUE(decoder->failure());
    EXPECT_THAT(decoder->failure()->what, HasSubstr("no JSON"));
    EXPECT_FALSE(decoder->feed({"", "[DONE]"}));
    EXPECT_FALSE(decoder->feed({"", R"({"type":"message_stop"})"}));
    EXPECT_FALSE(decoder->done());
  }
}

TEST(WireReply, CountsOfTokensAreNeverAbsurd) {
  const std::unique_ptr<ReplyDecoder> decoder = make_reply_decoder(WireApi::openai, nullptr);
  EXPECT_TRUE(decoder->feed(
      {"",
       R"({"usage":{"prompt_tokens":5,"completion_tokens":-3,"prompt_tokens_details":{"cached_tokens":18446744073709551615}}})"}));
  const Usage usage = decoder->reply().usage;
  EXPECT_TRUE(usage.known);
  EXPECT_EQ(usage.output, 0);
  EXPECT_GE(usage.cache_read, 0);
  EXPECT_EQ(usage.input, 5 - std::min<int64_t>(5, usage.cache_read));
  EXPECT_FALSE(make_reply_decoder(WireApi::anthropic, nullptr)->reply().usage.known);
  EXPECT_THAT(make_reply_decoder(WireApi::anthropic, nullptr)->reply().blocks, IsEmpty());
}

}  // namespace
}  // namespace marathon
