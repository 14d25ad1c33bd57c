#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "agent/wire.h"

namespace marathon {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct Case {
  int status;
  ModelFault fault;
  const char* body;
};

// As servers write them; status 0 is an event in a stream.
const Case cases[] = {
    // OpenAI
    {400, ModelFault::context_overflow,
     R"({"error":{"message":"This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}})"},
    {400, ModelFault::context_overflow,
     R"({"error":{"message":"Your input exceeds the context window of this model.","type":"invalid_request_error","code":null}})"},
    {429, ModelFault::context_overflow,
     R"({"error":{"message":"Request too large for gpt-4o in organization o on tokens per min (TPM): Limit 30000, Requested 50000. The input or output tokens must be reduced in order to run successfully.","type":"tokens","code":"rate_limit_exceeded"}})"},
    {429, ModelFault::rate_limited,
     R"({"error":{"message":"Rate limit reached for gpt-4o on requests per min: Limit 3. Please try again in 20s.","type":"requests","param":null,"code":"rate_limit_exceeded"}})"},
    {429, ModelFault::quota,
     R"({"error":{"message":"You exceeded your current quota, please check your plan and billing details.","type":"insufficient_quota","param":null,"code":"insufficient_quota"}})"},
    {400, ModelFault::quota,
     R"({"error":{"message":"Billing hard limit has been reached","type":"invalid_request_error","code":"billing_hard_limit_reached"}})"},
    {401, ModelFault::auth,
     R"({"error":{"message":"Incorrect API key provided: sk-abc.","type":"invalid_request_error","code":"invalid_api_key"}})"},
    {403, ModelFault::auth,
     R"({"error":{"code":"unsupported_country_region_territory","message":"Country, region, or territory not supported","type":"request_forbidden"}})"},
    {404, ModelFault::not_found,
     R"({"error":{"message":"The model `gpt-9` does not exist or you do not have access to it.","type":"invalid_request_error","code":"model_not_found"}})"},
    {400, ModelFault::bad_request,
     R"({"error":{"message":"Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.","type":"invalid_request_error","param":"max_tokens","code":"unsupported_parameter"}})"},
    {400, ModelFault::content_filter,
     R"({"error":{"message":"The response was filtered due to the prompt triggering Azure OpenAI's content management policy.","code":"content_filter","status":400}})"},
    {500, ModelFault::server,
     R"({"error":{"message":"The server had an error while processing your request","type":"server_error","code":null}})"},
    {503, ModelFault::overloaded, R"({"error":{"message":"Slow Down","type":"server_error"}})"},
    {0, ModelFault::server,
     R"({"error":{"message":"The server had an error","type":"server_error"}})"},
    {0, ModelFault::bad_request,
     R"({"error":{"message":"no","type":"invalid_request_error","code":null}})"},
    // Anthropic
    {400, ModelFault::context_overflow,
     R"({"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 213462 tokens > 200000 maximum"}})"},
    {400, ModelFault::context_overflow,
     R"({"type":"error","error":{"type":"invalid_request_error","message":"input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000"}})"},
    {400, ModelFault::bad_request,
     R"({"type":"error","error":{"type":"invalid_request_error","message":"messages.1: all messages must have non-empty content"},"request_id":"req_1"})"},
    {400, ModelFault::quota,
     R"({"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the Anthropic API."}})"},
    {400, ModelFault::quota,
     R"({"type":"error","error":{"type":"invalid_request_error","message":"You have reached your specified API usage limits. You will regain access on 2027-01-01."}})"},
    {400, ModelFault::quota,
     R"({"type":"error","error":{"type":"invalid_request_error","message":"no","details":{"error_code":"enforced_spend_limit_reached"}}})"},
    {400, ModelFault::content_filter,
     R"({"type":"error","error":{"type":"invalid_request_error","message":"Output blocked by content filtering policy"}})"},
    {401, ModelFault::auth,
     R"({"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}})"},
    {402, ModelFault::quota,
     R"({"type":"error","error":{"type":"billing_error","message":"Payment is needed."}})"},
    {403, ModelFault::auth,
     R"({"type":"error","error":{"type":"permission_error","message":"not allowed"}})"},
    {404, ModelFault::not_found,
     R"({"type":"error","error":{"type":"not_found_error","message":"model: claude-9"}})"},
    {413, ModelFault::context_overflow,
     R"({"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}})"},
    {429, ModelFault::rate_limited,
     R"({"type":"error","error":{"type":"rate_limit_error","message":"This request would exceed your organization's rate limit of 30,000 input tokens per minute."}})"},
    {500, ModelFault::server,
     R"({"type":"error","error":{"type":"api_error","message":"Internal server error"}})"},
    {504, ModelFault::server,
     R"({"type":"error","error":{"type":"timeout_error","message":"Timeout"}})"},
    {529, ModelFault::overloaded,
     R"({"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}})"},
    {0, ModelFault::overloaded,
     R"({"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}})"},
    {0, ModelFault::rate_limited,
     R"({"type":"error","error":{"type":"rate_limit_error","message":"Slower."}})"},
    {0, ModelFault::server, R"({"type":"error","error":{"type":"api_error","message":"Oh."}})"},
    {0, ModelFault::auth,
     R"({"type":"error","error":{"type":"authentication_error","message":"Expired."}})"},
    // vLLM, SGLang, TGI
    {400,
     ModelFault::context_overflow, R"({"object":"error","message":"This model's maximum context length is 16384 tokens. However, you requested 122946 tokens (112946 in the messages, 10000 in the completion). Please reduce the length of the messages or completion.","type":"BadRequestError","param":null,"code":400})"},
    {400, ModelFault::context_overflow,
     R"({"object":"error","message":"max_tokens must be at least 1, got -186.","type":"BadRequestError","param":null,"code":400})"},
    {400, ModelFault::bad_request,
     R"({"object":"error","message":"max_tokens must be at least 1, got 0.","type":"BadRequestError","param":null,"code":400})"},
    {400, ModelFault::context_overflow,
     R"({"error":{"message":"The decoder prompt (length 5000) is longer than the maximum model length of 4096.","type":"BadRequestError","param":null,"code":400}})"},
    {404, ModelFault::not_found,
     R"({"object":"error","message":"The model `x` does not exist.","type":"NotFoundError","param":null,"code":404})"},
    {400, ModelFault::context_overflow,
     R"({"object":"error","message":"The input (50000 tokens) is longer than the model's context length (32768 tokens).","type":"BadRequestError","code":400})"},
    {422, ModelFault::context_overflow,
     R"({"error":"Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 4000 `inputs` tokens and 200 `max_new_tokens`","error_type":"validation"})"},
    {422, ModelFault::bad_request,
     R"({"detail":[{"loc":["body","messages"],"msg":"field required","type":"value_error.missing"}]})"},
    // llama.cpp, Ollama, LM Studio
    {400, ModelFault::context_overflow,
     R"({"error":{"code":400,"message":"request (4390 tokens) exceeds the available context size (4096 tokens), try increasing it","type":"exceed_context_size_error","n_prompt_tokens":4390,"n_ctx":4096}})"},
    {500, ModelFault::context_overflow,
     R"({"error":{"code":500,"message":"Context size has been exceeded.","type":"server_error"}})"},
    {200, ModelFault::context_overflow,
     R"({"error":{"code":400,"message":"the request exceeds the available context size. try increasing the context size or enable context shift","type":"exceed_context_size_error"}})"},
    {503, ModelFault::overloaded,
     R"({"error":{"code":503,"message":"Loading model","type":"unavailable_error"}})"},
    {404, ModelFault::not_found,
     R"({"error":{"message":"model \"qwen9\" not found, try pulling it first","type":"api_error","param":null,"code":null}})"},
    {400, ModelFault::context_overflow,
     R"({"error":"the input length exceeds the context length"})"},
    {400, ModelFault::context_overflow,
     R"({"error":"Trying to keep the first 5000 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens"})"},
    // other servers
    {402, ModelFault::quota,
     R"({"error":{"message":"Insufficient Balance","type":"unknown_error","param":null,"code":"invalid_request_error"}})"},
    {400, ModelFault::not_found,
     R"({"error":{"message":"Model Not Exist","type":"invalid_request_error","param":null,"code":"invalid_request_error"}})"},
    {400, ModelFault::content_filter,
     R"({"error":{"message":"Content Exists Risk","type":"invalid_request_error"}})"},
    {402, ModelFault::quota,
     R"({"error":{"message":"This request requires more credits, or fewer max_tokens.","code":402}})"},
    {403, ModelFault::quota,
     R"({"error":{"message":"Key limit exceeded (monthly limit).","code":403}})"},
    {400, ModelFault::not_found,
     R"({"error":{"message":"foo/bar is not a valid model ID","code":400},"user_id":"u"})"},
    {0, ModelFault::server, R"({"error":{"code":502,"message":"Provider disconnected"}})"},
    {0, ModelFault::rate_limited, R"({"error":{"code":429,"message":"later"}})"},
    {0, ModelFault::rate_limited, R"({"error":{"code":"429","message":"later"}})"},
    {429, ModelFault::overloaded,
     R"({"error":{"message":"The engine is currently overloaded, please try again later","type":"engine_overloaded_error"}})"},
    {429, ModelFault::quota,
     R"({"error":{"message":"Your account is suspended","type":"exceeded_current_quota_error"}})"},
    {429, ModelFault::rate_limited,
     R"([{"error":{"code":429,"message":"You exceeded your current quota, please check your plan and billing details. Please retry in 33.1s.","status":"RESOURCE_EXHAUSTED"}}])"},
    {400, ModelFault::auth,
     R"([{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT"}}])"},
    {400, ModelFault::context_overflow,
     R"([{"error":{"code":400,"message":"The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).","status":"INVALID_ARGUMENT"}}])"},
    {400, ModelFault::context_overflow,
     R"({"code":"invalid","error":"This model's maximum prompt length is 131072 but the request contains 537812 tokens."})"},
    // what proxies say, and nothing
    {502, ModelFault::server, "<html><body><h1>502 Bad Gateway</h1></body></html>"},
    {403, ModelFault::auth, "<!DOCTYPE html><title>Attention</title>"},
    {404, ModelFault::not_found, "404 page not found"},
    {302, ModelFault::not_found, ""},
    {400, ModelFault::bad_request, ""},
    {408, ModelFault::network, ""},
    {418, ModelFault::bad_request, "{}"},
    {429, ModelFault::rate_limited, ""},
    {503, ModelFault::overloaded, "no JSON \xff"},
    {529, ModelFault::overloaded, "null"},
    {599, ModelFault::server, "[[[[[[]]]]]]"},
    {0, ModelFault::server, ""},
};

TEST(WireFailures, AreClassifiedInBothApis) {
  for (const Case& known : cases) {
    for (const WireApi api : {WireApi::openai, WireApi::anthropic}) {
      const ModelFailure failure = classify_error_body(api, known.status, known.body);
      EXPECT_EQ(to_string(failure.fault), to_string(known.fault))
          << known.status << " " << known.body;
      EXPECT_EQ(failure.status, known.status);
      EXPECT_FALSE(failure.what.empty());
      HttpReply reply;
      reply.status = known.status;
      reply.body = known.body;
      if (known.status != 0) {
        EXPECT_EQ(classify_http(api, reply, 0).fault, known.fault);
      }
    }
  }
}

TEST(WireFailures, SayWhatTheServerSaidOnOneLineWithoutKeys) {
  const auto what = [](int status, const std::string& body) {
    return classify_error_body(WireApi::openai, status, body).what;
  };
  EXPECT_EQ(what(400, R"({"error":{"message":"Bad\n\"x\"."}})"),
            "The server answered 400: Bad \"x\".");
  EXPECT_EQ(what(400, ""), "The server answered 400 and did not say why.");
  EXPECT_EQ(what(0, R"({"error":"no"})"), "The server (openai API) reported an error: no");
  const std::string key =
      what(401, R"({"error":{"message":"Incorrect: sk-proj-abcDEF123, sk-x."}})");
  EXPECT_THAT(key, HasSubstr("Incorrect: sk-…, sk-…"));
  EXPECT_THAT(key, Not(HasSubstr("abcDEF")));
  std::string longest = "a";
  for (int i = 0; i < 1000; ++i) longest += "∑";
  const std::string cut = what(500, longest);
  EXPECT_LT(cut.size(), 600u);
  EXPECT_TRUE(cut.ends_with("∑…"));
  EXPECT_EQ(dump_json(Json(cut)).find("\xef\xbf\xbd"), std::string::npos);  // no replacement
}

TEST(WireFailures, OfTheConnection) {
  const std::pair<HttpTrouble, ModelFault> expected[] = {
      {HttpTrouble::bad_url, ModelFault::bad_request},
      {HttpTrouble::resolve, ModelFault::network},
      {HttpTrouble::connect, ModelFault::network},
      {HttpTrouble::proxy, ModelFault::network},
      {HttpTrouble::tls, ModelFault::tls},
      {HttpTrouble::reset, ModelFault::network},
      {HttpTrouble::idle, ModelFault::network},
      {HttpTrouble::total_timeout, ModelFault::network},
      {HttpTrouble::too_large, ModelFault::malformed},
      {HttpTrouble::stopped, ModelFault::cancelled},
      {HttpTrouble::other, ModelFault::network}};
  for (const auto& [trouble, fault] : expected) {
    HttpReply reply;
    reply.trouble = trouble;
    reply.status = trouble == HttpTrouble::idle ? 200 : 0;
    reply.what = "words";
    reply.body_bytes = 7;
    const ModelFailure failure = classify_http(WireApi::openai, reply, 0);
    EXPECT_EQ(to_string(failure.fault), to_string(fault));
    EXPECT_EQ(failure.what, "words");
    EXPECT_EQ(failure.received_bytes, 7);
    EXPECT_EQ(failure.status, reply.status);
  }
  HttpReply reset;  // behind a status that says why
  reset.trouble = HttpTrouble::reset;
  reset.status = 401;
  EXPECT_EQ(classify_http(WireApi::openai, reset, 0).fault, ModelFault::auth);
  reset.trouble = HttpTrouble::stopped;
  EXPECT_EQ(classify_http(WireApi::openai, reset, 0).fault, ModelFault::cancelled);
}

TEST(WireFailures, RedirectsAreNamed) {
  HttpReply reply;
  reply.status = 301;
  reply.headers = {{"location", "https://elsewhere/v1"}};
  EXPECT_EQ(classify_http(WireApi::openai, reply, 0).what,
            "The server answered 301 and points to https://elsewhere/v1: use that address.");
}

TEST(WireFailures, RetryAfter) {
  constexpr int64_t now_us = 1'445'412'480LL * 1'000'000;  // Wed, 21 Oct 2015 07:28:00 GMT
  const auto after = [&](std::vector<std::pair<std::string, std::string>> headers) {
    HttpReply reply;
    reply.status = 429;
    reply.headers = std::move(headers);
    return classify_http(WireApi::openai, reply, now_us).retry_after_s;
  };
  EXPECT_EQ(after({}), std::nullopt);
  EXPECT_EQ(after({{"retry-after", "20"}}), 20.0);
  EXPECT_EQ(after({{"retry-after", " 1.5 "}}), 1.5);
  EXPECT_EQ(after({{"retry-after", "0"}}), 0.0);
  EXPECT_EQ(after({{"retry-after", "20"}, {"retry-after-ms", "1500"}}), 1.5);
  EXPECT_EQ(after({{"retry-after", "20"}, {"retry-after-ms", "soon"}}), 20.0);
  EXPECT_EQ(after({{"retry-after", "Wed, 21 Oct 2015 07:28:30 GMT"}}), 30.0);
  EXPECT_EQ(after({{"retry-after", "Wednesday, 21-Oct-15 07:29:00 GMT"}}), 60.0);
  EXPECT_EQ(after({{"retry-after", "Wed Oct 21 07:28:05 2015"}}), 5.0);
  EXPECT_EQ(after({{"retry-after", "Wed, 21 Oct 2015 07:27:00 GMT"}}), 0.0);
  EXPECT_EQ(after({{"retry-after", "99999999999"}}), 99999999999.0);
  for (const char* nonsense : {"", "-3", "nan", "inf", "1e999", "soon", "20 s", "Wed, 21 Oct"}) {
    EXPECT_EQ(after({{"retry-after", nonsense}}), std::nullopt) << nonsense;
  }
}

}  // namespace
}  // namespace marathon
