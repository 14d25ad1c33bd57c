// What becomes of each thing that a server can do, from the socket to the answer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "agent/chat.h"
#include "base/clock.h"
#include "base/json.h"
#include "fakes/model_server.h"

namespace marathon {
namespace {

using testing::HasSubstr;
using testing::Not;

const char* const key = "fake-key-0123456789";

Endpoint endpoint_of(WireApi api, const ModelServer& server) {
  Endpoint endpoint;
  endpoint.api = api;
  endpoint.base_url = api == WireApi::openai ? server.openai_url() : server.url();
  endpoint.key = key;
  endpoint.connect_timeout_s = 5;
  endpoint.idle_timeout_s = 0.4;
  endpoint.total_timeout_s = 20;
  return endpoint;
}

ChatRequest question() {
  ChatRequest request;
  request.model = "fake-1";
  request.system = "You answer.";
  request.messages.emplace_back().text = "What is new?";
  request.tools.push_back({"read_file", "reads a file", R"({"type":"object"})"});
  return request;
}

ModelAnswer ask(const Endpoint& endpoint, const OnDelta& on_delta = {}) {
  ModelAnswer answer = ask_model(endpoint, question(), on_delta, {});
  EXPECT_NE(answer.reply.has_value(), answer.failure.has_value());
  if (answer.failure) {
    EXPECT_FALSE(answer.failure->what.empty());
    EXPECT_THAT(answer.failure->what, Not(HasSubstr(key)));
    EXPECT_TRUE(answer.failure->what.ends_with('.') || answer.failure->status != 0)
        << answer.failure->what;
  }
  return answer;
}

constexpr WireApi both[] = {WireApi::openai, WireApi::anthropic};

// ---- failures: every behaviour of the server with what it must become

enum class After : uint8_t { none, seconds_3, seconds_7, about_a_minute, days_3 };
enum class Used : uint8_t { unknown, known, by_api };  // by_api: Anthropic's stream begins with it

struct Row {
  const char* behaviour;
  ModelFault fault;
  int status;
  After after = After::none;
  Used used = Used::unknown;
  bool received = false;  // some of the answer had come
};

const Row rows[] = {
    {"429", ModelFault::rate_limited, 429},
    {"429_seconds", ModelFault::rate_limited, 429, After::seconds_7},
    {"429_date", ModelFault::rate_limited, 429, After::about_a_minute},
    {"429_days", ModelFault::rate_limited, 429, After::days_3},
    {"429_strange", ModelFault::rate_limited, 429},
    {"500", ModelFault::server, 500},
    {"502", ModelFault::server, 502},
    {"503", ModelFault::overloaded, 503, After::seconds_3},
    {"529", ModelFault::overloaded, 529},
    {"huge_error", ModelFault::server, 500},
    {"bad_request", ModelFault::bad_request, 400},
    {"bad_key", ModelFault::auth, 401},
    {"proxy_denied", ModelFault::auth, 407},
    {"model_not_found", ModelFault::not_found, 404},
    {"redirect", ModelFault::not_found, 307},
    {"overflow_openai", ModelFault::context_overflow, 400},
    {"overflow_anthropic", ModelFault::context_overflow, 400},
    {"overflow_vllm", ModelFault::context_overflow, 400},
    {"overflow_llamacpp", ModelFault::context_overflow, 400},
    {"overflow_ollama", ModelFault::context_overflow, 400},
    {"reset_before_reply", ModelFault::network, 0},
    {"close_before_reply", ModelFault::network, 0},
    {"stalled_before_reply", ModelFault::network, 0},
    {"not_http", ModelFault::network, 0},
    {"huge_headers", ModelFault::malformed, 200},
    {"close_in_stream", ModelFault::network, 200, After::none, Used::by_api, true},
    {"stalled_stream", ModelFault::network, 200, After::none, Used::by_api, true},
    {"ends_without_mark", ModelFault::network, 200, After::none, Used::by_api, true},
    {"no_json_in_stream", ModelFault::malformed, 200, After::none, Used::by_api, true},
    {"error_in_stream", ModelFault::server, 200, After::none, Used::by_api, true},
    {"overloaded_in_stream", ModelFault::overloaded, 200, After::none, Used::by_api, true},
    {"huge_reply", ModelFault::malformed, 200, After::none, Used::by_api, true},
    {"huge_event", ModelFault::malformed, 200},
    {"empty_reply", ModelFault::empty, 200, After::none, Used::known},
    {"only_reasoning", ModelFault::empty, 200, After::none, Used::known, true},
    {"content_filter", ModelFault::content_filter, 200, After::none, Used::known, true},
    {"html_with_200", ModelFault::malformed, 200},
    {"nothing_with_200", ModelFault::network, 200},
    {"json_error_with_200", ModelFault::overloaded, 200},
};

class Failures : public testing::TestWithParam<Row> {};

void check_after(After after, const std::optional<double>& seconds) {
  switch (after) {
    case After::none:
      EXPECT_EQ(seconds, std::nullopt);
      return;
    case After::seconds_3:
      EXPECT_EQ(seconds, 3.0);
      return;
    case After::seconds_7:
      EXPECT_EQ(seconds, 7.0);
      return;
    case After::about_a_minute:
      EXPECT_GT(seconds.value_or(0), 30);
      EXPECT_LE(seconds.value_or(0), 60);
      return;
    case After::days_3:
      EXPECT_EQ(seconds, 3.0 * 24 * 3600);
      return;
  }
}

TEST_P(Failures, AreToldApart) {
  const Row& row = GetParam();
  for (const WireApi api : both) {
    SCOPED_TRACE(std::string(row.behaviour) + " of " + std::string(to_string(api)));
    ModelServer server;
    server.behave(row.behaviour);
    const ModelAnswer answer = ask(endpoint_of(api, server));
    ASSERT_TRUE(answer.failure);
    EXPECT_EQ(to_string(answer.failure->fault), to_string(row.fault)) << answer.failure->what;
    EXPECT_EQ(answer.failure->status, row.status);
    check_after(row.after, answer.failure->retry_after_s);
    const bool known =
        row.used == Used::known || (row.used == Used::by_api && api == WireApi::anthropic);
    EXPECT_EQ(answer.failure->usage.known, known);
    EXPECT_EQ(answer.failure->usage.input, known ? 100 : 0);
    if (row.used != Used::by_api) {
      EXPECT_EQ(answer.failure->usage.output, known ? 20 : 0);
    }
    EXPECT_EQ(answer.failure->received_bytes > 0, row.received);
    EXPECT_EQ(server.requests().size(), 1u);  // once: no retries
  }
}

INSTANTIATE_TEST_SUITE_P(AskModel, Failures, testing::ValuesIn(rows),
                         [](const auto& row) { return "x" + std::string(row.param.behaviour); });

// What is no failure, or has a test of its own.
const std::set<std::string> told_elsewhere = {"good",
                                              "quota",
                                              "reset_in_stream",
                                              "slow_loris",
                                              "interim_reply",
                                              "split_utf8",
                                              "crlf",
                                              "usage_missing",
                                              "arguments_cut",
                                              "same_id_twice",
                                              "length",
                                              "json_instead_of_stream",
                                              "stays_open",
                                              "stalls_behind_stop"};

TEST(AskModel, NoBehaviourOfTheServerIsLeftOut) {
  std::set<std::string> told = told_elsewhere;
  for (const Row& row : rows) told.insert(row.behaviour);
  const std::vector<std::string> all = model_behaviours();
  EXPECT_EQ(told, std::set<std::string>(all.begin(), all.end()));
}

TEST(AskModel, AUsedUpAccountIsNoRateLimit) {
  for (const WireApi api : both) {
    ModelServer server;
    server.behave("quota");
    const ModelAnswer answer = ask(endpoint_of(api, server));
    ASSERT_TRUE(answer.failure);
    EXPECT_EQ(answer.failure->fault, ModelFault::quota);
    EXPECT_EQ(answer.failure->status, api == WireApi::openai ? 429 : 400);
  }
}

// What had come when the reset came is up to the kernel.
TEST(AskModel, AResetInTheStreamIsNetwork) {
  for (const WireApi api : both) {
    ModelServer server;
    server.behave("reset_in_stream");
    EXPECT_EQ(ask(endpoint_of(api, server)).failure.value().fault, ModelFault::network);
  }
}

TEST(AskModel, AByteASecondEndsAtTheLimitOnTheWhole) {
  ModelServer server;
  server.behave("slow_loris");
  Endpoint endpoint = endpoint_of(WireApi::openai, server);
  endpoint.idle_timeout_s = 1.8;
  endpoint.total_timeout_s = 2.2;
  const ModelFailure failure = ask(endpoint).failure.value();
  EXPECT_EQ(failure.fault, ModelFault::network);
  EXPECT_THAT(failure.what, HasSubstr("2.2 s"));
}

TEST(AskModel, NobodyThere) {
  const ModelServer server;
  const ClosedPort closed;
  Endpoint endpoint = endpoint_of(WireApi::openai, server);
  endpoint.base_url = "http://127.0.0.1:" + std::to_string(closed.port()) + "/v1";
  EXPECT_EQ(ask(endpoint).failure.value().fault, ModelFault::network);
  endpoint.base_url = "not a URL";
  EXPECT_EQ(ask(endpoint).failure.value().fault, ModelFault::bad_request);
  endpoint = endpoint_of(WireApi::openai, server);
  ::setenv("http_proxy", ("http://127.0.0.1:" + std::to_string(closed.port())).c_str(), 1);
  const ModelAnswer answer = ask(endpoint);
  ::unsetenv("http_proxy");
  EXPECT_EQ(answer.failure.value().fault, ModelFault::network);
  EXPECT_THAT(answer.failure.value().what, HasSubstr("proxy"));
}

TEST(AskModel, ACertificateIsCheckedBeforeTheKeyLeaves) {
  for (const WireApi api : both) {
    const ModelServer server(ModelServer::Transport::tls);
    Endpoint endpoint = endpoint_of(api, server);
    EXPECT_EQ(ask(endpoint).failure.value().fault, ModelFault::tls);
    EXPECT_EQ(server.requests().size(), 0u);
    endpoint.ca_file = server.ca_file();
    EXPECT_TRUE(ask(endpoint).reply);
  }
}

TEST(AskModel, AKeyThatTheServerRepeatsIsNotShown) {
  ModelServer server;
  server.behave("bad_key");
  Endpoint endpoint = endpoint_of(WireApi::openai, server);
  endpoint.key = "fake*****cret\n";  // as from a file
  const ModelFailure failure = ask(endpoint).failure.value();
  EXPECT_THAT(failure.what, Not(HasSubstr("fake*****cret")));
  EXPECT_THAT(failure.what, HasSubstr("Incorrect API key"));
}

// ---- answers

std::string text_of(const ChatReply& reply, ChatBlock::Kind kind = ChatBlock::Kind::text) {
  std::string text;
  for (const ChatBlock& block : reply.blocks)
    if (block.kind == kind) text += block.text;
  return text;
}

std::vector<ToolCall> calls_of(const ChatReply& reply) {
  std::vector<ToolCall> calls;
  for (const ChatBlock& block : reply.blocks)
    if (block.kind == ChatBlock::Kind::call) calls.push_back(block.call);
  return calls;
}

TEST(AskModel, TheSameAnswerHoweverItIsWritten) {
  for (const char* behaviour :
       {"good", "split_utf8", "crlf", "usage_missing", "interim_reply", "json_instead_of_stream"}) {
    for (const WireApi api : both) {
      SCOPED_TRACE(std::string(behaviour) + " of " + std::string(to_string(api)));
      ModelServer server;
      server.behave(behaviour);
      const ModelAnswer answer = ask(endpoint_of(api, server));
      ASSERT_TRUE(answer.reply) << answer.failure->what;
      EXPECT_EQ(text_of(*answer.reply), "Привет, 世界 \U0001F600!");
      EXPECT_EQ(answer.reply->stop, ChatStop::end);
      EXPECT_EQ(answer.reply->model, "fake-1");
      EXPECT_EQ(answer.reply->id, api == WireApi::openai ? "chatcmpl-1" : "msg_1");
      const Usage& usage = answer.reply->usage;
      EXPECT_EQ(usage.known, std::string_view(behaviour) != "usage_missing");
      if (!usage.known) continue;
      EXPECT_EQ(usage.input, 100);
      EXPECT_EQ(usage.cache_read, 40);
      EXPECT_EQ(usage.cache_write, 0);
      EXPECT_EQ(usage.output, 20);
    }
  }
}

TEST(AskModel, ReasoningTextAndCallsInTheirOrder) {
  for (const WireApi api : both) {
    ModelServer server;
    server.answer({"I think.",
                   "I read.",
                   {{"call_a", "read_file", R"({"path":"ä.cc"})"}, {"call_b", "list", "{}"}},
                   7,
                   0,
                   3});
    std::string told;
    const ModelAnswer answer =
        ask(endpoint_of(api, server), [&](ChatBlock::Kind kind, std::string_view text) {
          told += (kind == ChatBlock::Kind::text ? "T" : "R") + std::string(text);
        });
    ASSERT_TRUE(answer.reply) << answer.failure->what;
    EXPECT_EQ(text_of(*answer.reply, ChatBlock::Kind::reasoning), "I think.");
    EXPECT_EQ(text_of(*answer.reply), "I read.");
    EXPECT_EQ(answer.reply->blocks.front().kind, ChatBlock::Kind::reasoning);
    EXPECT_EQ(answer.reply->stop, ChatStop::calls);
    const std::vector<ToolCall> calls = calls_of(*answer.reply);
    ASSERT_EQ(calls.size(), 2u);
    EXPECT_EQ(calls[0].id, "call_a");
    EXPECT_EQ(calls[0].name, "read_file");
    EXPECT_EQ(calls[0].arguments, R"({"path":"ä.cc"})");
    EXPECT_EQ(calls[1].arguments, "{}");
    EXPECT_EQ(answer.reply->usage.input, 7);
    EXPECT_EQ(answer.reply->usage.output, 3);
    EXPECT_EQ(told, "RI thRink.TI rTead.");
  }
}

TEST(AskModel, AnAnswerThatTheLimitCutIsWhole) {
  for (const WireApi api : both) {
    ModelServer server;
    server.behave("length").behave("arguments_cut");
    const ModelAnswer text = ask(endpoint_of(api, server));
    ASSERT_TRUE(text.reply);
    EXPECT_EQ(text.reply->stop, ChatStop::length);
    EXPECT_EQ(text_of(*text.reply), "And then");
    const ModelAnswer call = ask(endpoint_of(api, server));
    ASSERT_TRUE(call.reply);
    EXPECT_EQ(call.reply->stop, ChatStop::length);
    ASSERT_EQ(calls_of(*call.reply).size(), 1u);
    EXPECT_EQ(calls_of(*call.reply)[0].arguments, R"({"path":"a","text":"unfin)");
    EXPECT_TRUE(call.reply->usage.known);
  }
}

TEST(AskModel, TwoCallsWithOneIdAreTwoCalls) {
  for (const WireApi api : both) {
    ModelServer server;
    server.behave("same_id_twice");
    const ModelAnswer answer = ask(endpoint_of(api, server));
    ASSERT_TRUE(answer.reply);
    const std::vector<ToolCall> calls = calls_of(*answer.reply);
    ASSERT_EQ(calls.size(), 2u);
    EXPECT_EQ(calls[0].arguments, R"({"path":"a"})");
    EXPECT_EQ(calls[1].arguments, R"({"path":"b"})");
  }
}

TEST(AskModel, SendsTheRequestToTheApisPathWithItsKey) {
  for (const WireApi api : both) {
    const ModelServer server;
    ASSERT_TRUE(ask(endpoint_of(api, server)).reply);
    const SeenRequest seen = server.requests().at(0);
    EXPECT_EQ(seen.method, "POST");
    EXPECT_EQ(seen.path, api == WireApi::openai ? "/v1/chat/completions" : "/v1/messages");
    EXPECT_EQ(seen.header("content-type"), "application/json");
    EXPECT_EQ(seen.header("authorization"),
              api == WireApi::openai ? std::string("Bearer ") + key : "");
    EXPECT_EQ(seen.header("x-api-key"), api == WireApi::anthropic ? key : "");
    EXPECT_EQ(seen.body, encode_request(api, question()));
    const Result<Json> body = parse_json(seen.body);
    ASSERT_TRUE(body);
    EXPECT_TRUE(json_bool(*body, "stream"));
    EXPECT_EQ(json_string(*body, "model"), "fake-1");
  }
}

TEST(AskModel, AStopIsCancelledWithinAFifthOfASecond) {
  for (const char* behaviour : {"stalled_before_reply", "stalled_stream"}) {
    for (const WireApi api : both) {
      ModelServer server;
      server.behave(behaviour);
      Endpoint endpoint = endpoint_of(api, server);
      endpoint.idle_timeout_s = 60;
      std::stop_source source;
      int64_t stopped_us = 0;
      std::thread stopper([&] {
        server.wait_for_requests(1);
        stopped_us = monotonic_us();
        source.request_stop();
      });
      const ModelAnswer answer = ask_model(endpoint, question(), {}, source.get_token());
      const int64_t end_us = monotonic_us();
      stopper.join();
      ASSERT_TRUE(answer.failure);
      EXPECT_EQ(answer.failure->fault, ModelFault::cancelled) << answer.failure->what;
      EXPECT_LT(end_us - stopped_us, 200'000);
    }
  }
}

// A server that keeps the connection open behind the end of its stream does not hold us up.
TEST(AskModel, TheLastEventEndsTheRequest) {
  for (const WireApi api : both) {
    ModelServer server;
    server.behave("stays_open");
    Endpoint endpoint = endpoint_of(api, server);
    endpoint.idle_timeout_s = 60;
    const int64_t begin_us = monotonic_us();
    const ModelAnswer answer = ask(endpoint);
    EXPECT_LT(monotonic_us() - begin_us, 20'000'000);
    ASSERT_TRUE(answer.reply) << answer.failure->what;
    EXPECT_TRUE(answer.reply->usage.known);
  }
}

// With the stop reason the answer is whole, whatever becomes of the connection.
TEST(AskModel, TroubleBehindTheStopReasonIsNone) {
  for (const WireApi api : both) {
    ModelServer server;
    server.behave("stalls_behind_stop");
    const ModelAnswer answer = ask(endpoint_of(api, server));
    ASSERT_TRUE(answer.reply) << answer.failure->what;
    EXPECT_EQ(text_of(*answer.reply), "Привет, 世界 \U0001F600!");
  }
}

}  // namespace
}  // namespace marathon
