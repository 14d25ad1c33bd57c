// The bytes of requests stand in tests/golden/wire/*.json.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "agent/wire.h"
#include "base/file.h"

namespace marathon {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;
using Kind = ChatBlock::Kind;

ChatMessage user(std::string text, bool cache = false) {
  ChatMessage message;
  message.text = std::move(text);
  message.cache_until_here = cache;
  return message;
}

ChatMessage results(std::vector<ChatResult> list, bool cache = false) {
  ChatMessage message;
  message.results = std::move(list);
  message.cache_until_here = cache;
  return message;
}

ChatMessage answer(std::vector<ChatBlock> blocks) {
  ChatMessage message;
  message.assistant = true;
  message.blocks = std::move(blocks);
  return message;
}

ChatBlock text(std::string words, std::string opaque = "") {
  return {Kind::text, std::move(words), std::move(opaque), {}};
}
ChatBlock reasoning(std::string words, std::string opaque) {
  return {Kind::reasoning, std::move(words), std::move(opaque), {}};
}
ChatBlock call(std::string id, std::string name, std::string arguments, std::string opaque = "") {
  return {
      Kind::call, "", std::move(opaque), {std::move(id), std::move(name), std::move(arguments)}};
}

// What both APIs are asked alike: reasoning of either, parallel calls, a failed result.
ChatRequest whole_request() {
  ChatRequest request;
  request.model = "a-model";
  request.system = "You make programs faster.";
  request.tools = {
      {"evaluate", "Measures the candidate.",
       R"({"type":"object","properties":{"note":{"type":"string"}}})"},
      {"read_file", "Reads a file.",
       R"({"type":"object","properties":{"path":{"type":"string"}},"required":["path"]})"}};
  request.messages = {
      user("Begin. ü ∑", true),
      answer(
          {reasoning("Look first.", R"({"as":"reasoning_content"})"),
           reasoning("Look first!", R"({"signature":"c2ln"})"), text("I look at both."),
           call("call_1", "read_file", R"({"path": "a.cc"})",
                R"({"extra_content":{"google":{"thought_signature":"eHl6"}}})"),
           call("call_2", "read_file", R"({"path": "b.cc"})", R"({"caller":{"type":"direct"}})")}),
      results({{"call_2", "No such file: b.cc.", false}, {"call_1", "int main() {}", true}}),
      user("Go on.", true),
      answer({call("call_3", "evaluate", "{}")}),
      results({{"call_3", "", true}}, true)};
  request.max_output_tokens = 4096;
  request.extra = R"({"service_tier":"auto"})";
  return request;
}

Json encoded(WireApi api, const ChatRequest& request) {
  const Result<Json> json = parse_json(encode_request(api, request));
  EXPECT_TRUE(json) << encode_request(api, request);
  return json.value_or(Json());
}

void expect_golden(const std::string& name, WireApi api, const ChatRequest& request) {
  SCOPED_TRACE(name);
  const std::filesystem::path file =
      std::filesystem::path(MARATHON_SOURCE_DIR) / "tests/golden/wire" / (name + ".json");
  const std::string body = encode_request(api, request);
  EXPECT_EQ(body, encode_request(api, ChatRequest(request)));
  const Result<Json> json = parse_json(body);
  ASSERT_TRUE(json);
  EXPECT_EQ(dump_json(*json), body);  // one line with sorted keys; the file is for people
  const std::string text = dump_json_pretty(*json) + "\n";
  if (std::getenv("MARATHON_RENEW_GOLDEN") != nullptr) {
    ASSERT_TRUE(write_file(file, text));
  }
  const Result<std::string> golden = read_file(file);
  ASSERT_TRUE(golden) << "no golden file; run with MARATHON_RENEW_GOLDEN=1 and commit it";
  EXPECT_EQ(*golden, text);
}

TEST(WireRequest, GoldenBytes) {
  for (const WireApi api : {WireApi::openai, WireApi::anthropic}) {
    const std::string prefix(to_string(api));
    ChatRequest smallest;
    smallest.model = "a-model";
    smallest.messages = {user("Hello.")};
    expect_golden(prefix + "_smallest", api, smallest);
    expect_golden(prefix + "_whole", api, whole_request());

    ChatRequest broken = whole_request();
    broken.messages = {
        answer({text("I begin.")}),
        results({{"gone", "of a call that was compacted", true}}),
        answer({call("functions.evaluate:0", "evaluate it!", "{\"cut\": tr"), call("", "", "[1]"),
                call("same", "evaluate", "\xff\xfe"), call("same", "evaluate", "{}")}),
        answer({text("  "), text("No result came.")}),
        user(" \n"),
        answer({text("And on.")}),
        user("first"),
        user("second"),
        answer({call("same", "evaluate", "{}"), call("same", "evaluate", "{\"a\":1}")}),
        user("before the results"),
        results({{"same", "one", true}, {"same", "two", true}, {"same", "three", true}}),
        answer({reasoning("only thought", "")}),
        user("bytes \xff\xc3 that are no text"),
        answer({call("last", "evaluate", "{}")})};
    expect_golden(prefix + "_broken", api, broken);
  }
}

TEST(WireRequest, ReasoningGoesBackOnlyToTheApiThatGaveIt) {
  ChatRequest request;
  request.messages = {
      user("Hello."),
      answer({reasoning("thought", R"({"as":"reasoning","reasoning_details":[{"text":"t"}]})"),
              reasoning("signed", R"({"signature":"c2ln"})"),
              reasoning("unsigned", R"({"signature":""})"),
              reasoning("", R"({"data":"ZW5j","type":"redacted_thinking"})"),
              reasoning("of nobody", "not JSON"),
              text("words", R"({"citations":[{"type":"x"}]})")})};
  const Json openai = encoded(WireApi::openai, request)["messages"][1];
  EXPECT_EQ(openai, (Json{{"role", "assistant"},
                          {"content", "words"},
                          {"reasoning", "thought"},
                          {"reasoning_details", Json::array({Json{{"text", "t"}}})}}));
  const Json anthropic = encoded(WireApi::anthropic, request)["messages"][1]["content"];
  EXPECT_EQ(dump_json(anthropic), R"([{"signature":"c2ln","thinking":"signed","type":"thinking"},)"
                                  R"({"data":"ZW5j","type":"redacted_thinking"},)"
                                  R"({"citations":[{"type":"x"}],"text":"words","type":"text"}])");
}

// The promise behind both APIs: alternation, and a result for each call right behind it.
TEST(WireRequest, EveryCallHasItsResultRightBehindIt) {
  // Every sequence of five messages out of these kinds.
  const std::vector<ChatMessage> kinds = {user("text"),
                                          results({{"a", "r", true}}),
                                          results({{"b", "r", false}, {"x", "orphan", true}}),
                                          answer({text("words")}),
                                          answer({call("a", "f", "{}"), call("b", "f", "{}")}),
                                          answer({})};
  for (size_t word = 0; word < 6 * 6 * 6 * 6 * 6; ++word) {
    ChatRequest request;
    for (size_t rest = word, i = 0; i < 5; ++i, rest /= 6)
      request.messages.push_back(kinds[rest % 6]);
    std::vector<std::string> open;
    const Json openai = encoded(WireApi::openai, request);
    for (const Json& message : openai.at("messages")) {
      const std::string role = json_string(message, "role");
      if (role == "tool") {
        ASSERT_FALSE(open.empty()) << word;
        ASSERT_EQ(json_string(message, "tool_call_id"), open.front()) << word;
        open.erase(open.begin());
        continue;
      }
      ASSERT_TRUE(open.empty()) << word;
      if (message.contains("tool_calls"))
        for (const Json& one : message["tool_calls"]) open.push_back(json_string(one, "id"));
    }
    ASSERT_TRUE(open.empty()) << word;
    std::string expected = "user";
    const Json anthropic = encoded(WireApi::anthropic, request);
    for (const Json& message : anthropic.at("messages")) {
      ASSERT_EQ(json_string(message, "role"), expected) << word;
      expected = expected == "user" ? "assistant" : "user";
      ASSERT_FALSE(message["content"].empty()) << word;
      for (const Json& block : message["content"]) {
        const std::string type = json_string(block, "type");
        if (type == "tool_use") open.push_back(json_string(block, "id"));
        if (type == "text" && expected == "assistant") {
          ASSERT_TRUE(open.empty()) << word;
        }
        if (type != "tool_result") continue;
        ASSERT_FALSE(open.empty()) << word;
        ASSERT_EQ(json_string(block, "tool_use_id"), open.front()) << word;
        open.erase(open.begin());
      }
      if (expected == "assistant") {
        ASSERT_TRUE(open.empty()) << word;
      }
    }
    ASSERT_TRUE(open.empty()) << word;
  }
}

TEST(WireRequest, AtMostFourCacheMarks) {
  ChatRequest request;
  request.system = "system";
  for (int i = 0; i < 6; ++i) {
    request.messages.push_back(user("text " + std::to_string(i), i != 4));
    request.messages.push_back(answer({text("answer")}));
  }
  const Json body = encoded(WireApi::anthropic, request);
  EXPECT_EQ(dump_json(body["system"][0]["cache_control"]), R"({"type":"ephemeral"})");
  std::vector<std::string> marked;
  for (const Json& message : body["messages"]) {
    for (const Json& block : message["content"])
      if (block.contains("cache_control")) marked.push_back(json_string(block, "text"));
  }
  EXPECT_THAT(marked, ElementsAre("text 2", "text 3", "text 5"));

  request.system.clear();
  request.tools = {{"a", "", "{}"}, {"b", "", "{}"}};
  const Json tools = encoded(WireApi::anthropic, request)["tools"];
  EXPECT_FALSE(tools[0].contains("cache_control"));
  EXPECT_TRUE(tools[1].contains("cache_control"));
  EXPECT_EQ(encode_request(WireApi::openai, request).find("cache_control"), std::string::npos);
}

TEST(WireRequest, FurtherFieldsStandOverDefaultsAndNullRemovesOne) {
  ChatRequest request;
  request.model = "gpt-5.2";
  request.messages = {user("Hello.")};
  EXPECT_EQ(encoded(WireApi::openai, request)["max_completion_tokens"], 8192);
  for (const char* older : {"gpt-4.1", "gpt-oss-120b", "openhermes", "deepseek/deepseek-chat"}) {
    request.model = older;
    const Json body = encoded(WireApi::openai, request);
    EXPECT_EQ(body["max_tokens"], 8192) << older;
    EXPECT_FALSE(body.contains("max_completion_tokens")) << older;
  }
  request.model = "openai/o3";
  request.extra =
      R"({"max_tokens":5,"stream_options":null,"stream":false,"model":"other","seed":1})";
  const Json body = encoded(WireApi::openai, request);
  EXPECT_EQ(body["max_tokens"], 5);
  EXPECT_FALSE(body.contains("max_completion_tokens"));
  EXPECT_FALSE(body.contains("stream_options"));
  EXPECT_EQ(body["stream"], true);
  EXPECT_EQ(body["model"], "openai/o3");
  EXPECT_EQ(body["seed"], 1);
  request.extra = R"({"max_tokens":7,"thinking":{"type":"enabled","budget_tokens":5}})";
  EXPECT_EQ(encoded(WireApi::anthropic, request)["max_tokens"], 7);
  EXPECT_EQ(encoded(WireApi::anthropic, request)["thinking"]["budget_tokens"], 5);
  request.extra = "no object";
  EXPECT_EQ(encoded(WireApi::anthropic, request)["max_tokens"], 8192);
}

TEST(WireRequest, Urls) {
  const auto openai = [](const char* base) { return request_url(WireApi::openai, base); };
  EXPECT_EQ(openai("https://api.openai.com/v1"), "https://api.openai.com/v1/chat/completions");
  EXPECT_EQ(openai("https://api.openai.com/v1//"), "https://api.openai.com/v1/chat/completions");
  EXPECT_EQ(openai("http://localhost:8000"), "http://localhost:8000/v1/chat/completions");
  EXPECT_EQ(openai("http://localhost:8000/"), "http://localhost:8000/v1/chat/completions");
  EXPECT_EQ(openai("https://host/api/v1/chat/completions"), "https://host/api/v1/chat/completions");
  EXPECT_EQ(openai("https://host/openai/deployments/d?api-version=1"),
            "https://host/openai/deployments/d/chat/completions?api-version=1");
  const auto anthropic = [](const char* base) { return request_url(WireApi::anthropic, base); };
  EXPECT_EQ(anthropic("https://api.anthropic.com"), "https://api.anthropic.com/v1/messages");
  EXPECT_EQ(anthropic("https://api.anthropic.com/v1/"), "https://api.anthropic.com/v1/messages");
  EXPECT_EQ(anthropic("https://host/anthropic"), "https://host/anthropic/v1/messages");
  EXPECT_EQ(anthropic("https://host/v1/messages"), "https://host/v1/messages");
}

TEST(WireRequest, Headers) {
  EXPECT_THAT(
      request_headers(WireApi::openai, "secret\r\n"),
      ElementsAre(Pair("Content-Type", "application/json"), Pair("Accept", "text/event-stream"),
                  Pair("Authorization", "Bearer secret")));
  EXPECT_THAT(
      request_headers(WireApi::anthropic, "secret"),
      ElementsAre(Pair("Content-Type", "application/json"), Pair("Accept", "text/event-stream"),
                  Pair("anthropic-version", "2023-06-01"), Pair("x-api-key", "secret")));
  for (const auto& [name, value] : request_headers(WireApi::openai, ""))
    EXPECT_NE(name, "Authorization");
}

TEST(WireRequest, NamesOfFaultsGoThereAndBack) {
  for (int i = 0; i <= static_cast<int>(ModelFault::cancelled); ++i) {
    const ModelFault fault = static_cast<ModelFault>(i);
    EXPECT_EQ(model_fault_from(to_string(fault)), fault);
  }
  EXPECT_EQ(to_string(ModelFault::rate_limited), "rate_limited");
  EXPECT_EQ(to_string(ModelFault::context_overflow), "context_overflow");
  EXPECT_EQ(to_string(ModelFault::not_found), "not_found");
  EXPECT_EQ(to_string(ModelFault::cancelled), "cancelled");
  EXPECT_EQ(model_fault_from("unheard of"), std::nullopt);
  EXPECT_EQ(to_string(ChatStop::paused), "paused");
}

}  // namespace
}  // namespace marathon
