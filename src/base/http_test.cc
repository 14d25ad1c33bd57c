#include "base/http.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <thread>

#include "base/clock.h"
#include "fakes/model_server.h"

namespace marathon {
namespace {

using testing::HasSubstr;
using testing::Not;

const char* const secret = "sk-secret-5up3r";

int64_t open_files() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
}
int64_t live_threads() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
}

HttpRequest request_to(const std::string& url) {
  HttpRequest request;
  request.url = url + "/chat/completions";
  request.headers = {{"Content-Type", "application/json"},
                     {"Authorization", std::string("Bearer ") + secret}};
  request.body = R"({"stream":true})";
  request.connect_timeout_s = 5;
  request.idle_timeout_s = 5;
  request.total_timeout_s = 20;
  return request;
}

HttpReply send(const HttpRequest& request, std::string* streamed = nullptr) {
  const HttpSink sink = [&](std::string_view piece) {
    streamed->append(piece);
    return true;
  };
  const HttpReply reply = http_request(request, streamed ? sink : HttpSink(), {});
  EXPECT_THAT(reply.what, Not(HasSubstr(secret)));
  EXPECT_EQ(reply.trouble == HttpTrouble::none, reply.what.empty()) << reply.what;
  return reply;
}

std::string at(int port) { return "http://127.0.0.1:" + std::to_string(port); }

class Http : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY",
                             "no_proxy", "NO_PROXY"})
      ::unsetenv(name);
  }

  HttpReply sent_to(std::string_view behaviour) {
    server_.behave(behaviour);
    streamed_.clear();
    return send(request_to(server_.url()), &streamed_);
  }

  ModelServer server_;
  std::string streamed_;
};

TEST_F(Http, StreamsTheBodyOf2xxAndKeepsNothing) {
  const HttpReply reply = sent_to("good");
  EXPECT_TRUE(reply.ok());
  EXPECT_EQ(reply.status, 200);
  EXPECT_THAT(streamed_, HasSubstr("[DONE]"));
  EXPECT_EQ(reply.body, "");
  EXPECT_EQ(reply.body_bytes, static_cast<int64_t>(streamed_.size()));
  EXPECT_EQ(reply.header("content-type"), "text/event-stream; charset=utf-8");
  EXPECT_EQ(reply.header("x-request-id"), "req_fake");
  EXPECT_EQ(reply.header("retry-after"), "");
  EXPECT_GT(reply.seconds, 0);
  EXPECT_LT(reply.seconds, 5);
}

TEST_F(Http, WithoutSinkTheBodyIsKept) {
  const HttpReply reply = send(request_to(server_.url()));
  EXPECT_TRUE(reply.ok());
  EXPECT_THAT(reply.body, HasSubstr("[DONE]"));
}

TEST_F(Http, SendsWhatItIsToldTo) {
  HttpRequest request = request_to(server_.url());
  request.body = std::string(3 << 20, 'b') + '\0' + "end";
  request.headers.emplace_back("X-Empty", "");
  ASSERT_TRUE(send(request).ok());
  const SeenRequest seen = server_.requests().at(0);
  EXPECT_EQ(seen.method, "POST");
  EXPECT_EQ(seen.path, "/chat/completions");
  EXPECT_EQ(seen.body, request.body);
  EXPECT_EQ(seen.header("authorization"), std::string("Bearer ") + secret);
  EXPECT_EQ(seen.header("content-type"), "application/json");
  EXPECT_EQ(seen.header("user-agent"), "marathon/" MARATHON_VERSION);
  int empty = 0, expect = 0;
  for (const auto& [name, value] : seen.headers) {
    if (name == "x-empty" && value.empty()) ++empty;
    if (name == "expect") ++expect;
  }
  EXPECT_EQ(empty, 1);
  EXPECT_EQ(expect, 0);
}

TEST_F(Http, OtherMethods) {
  HttpRequest request = request_to(server_.url());
  request.method = "GET";
  request.body.clear();
  EXPECT_TRUE(send(request).ok());
  request.method = "PUT";
  request.body = "x";
  EXPECT_TRUE(send(request).ok());
  EXPECT_EQ(server_.requests().at(0).method, "GET");
  EXPECT_EQ(server_.requests().at(1).method, "PUT");
  EXPECT_EQ(server_.requests().at(1).body, "x");
}

TEST_F(Http, AStatusOtherThan2xxIsNoTroubleAndItsBodyIsKept) {
  const HttpReply reply = sent_to("429_seconds");
  EXPECT_EQ(reply.trouble, HttpTrouble::none);
  EXPECT_FALSE(reply.ok());
  EXPECT_EQ(reply.status, 429);
  EXPECT_EQ(reply.header("retry-after"), "7");
  EXPECT_THAT(reply.body, HasSubstr("rate_limit_exceeded"));
  EXPECT_EQ(streamed_, "");
}

TEST_F(Http, TheBodyOfAnErrorIsCutAtOneMiB) {
  const HttpReply reply = sent_to("huge_error");
  EXPECT_EQ(reply.trouble, HttpTrouble::none);
  EXPECT_EQ(reply.status, 500);
  EXPECT_EQ(reply.body, std::string(1 << 20, 'e'));
  EXPECT_LT(reply.body_bytes, 2 << 20);
}

TEST_F(Http, RedirectsAreNotFollowed) {
  const HttpReply reply = sent_to("redirect");
  EXPECT_EQ(reply.trouble, HttpTrouble::none);
  EXPECT_EQ(reply.status, 307);
  EXPECT_FALSE(reply.ok());
  EXPECT_EQ(reply.header("location"), "http://127.0.0.1:9/elsewhere");
}

TEST_F(Http, InterimRepliesAreNoReplies) {
  const HttpReply reply = sent_to("interim_reply");
  EXPECT_TRUE(reply.ok());
  EXPECT_EQ(reply.header("x-early"), "");
  EXPECT_EQ(reply.header("x-request-id"), "req_fake");
}

TEST_F(Http, AConnectionThatEndsEarlyIsAReset) {
  for (const char* behaviour :
       {"reset_before_reply", "close_before_reply", "reset_in_stream", "close_in_stream"}) {
    ModelServer server;
    server.behave(behaviour);
    std::string streamed;
    const HttpReply reply = send(request_to(server.url()), &streamed);
    EXPECT_EQ(reply.trouble, HttpTrouble::reset) << behaviour << ": " << reply.what;
    EXPECT_FALSE(reply.ok());
    EXPECT_THAT(reply.what, HasSubstr(server.url()));
  }
  sent_to("close_in_stream");
  EXPECT_THAT(streamed_, HasSubstr("data: "));  // what came before is not lost
}

TEST_F(Http, WhatIsNotHttpIsOther) {
  const HttpReply reply = sent_to("not_http");
  EXPECT_EQ(reply.trouble, HttpTrouble::other) << reply.what;
  EXPECT_EQ(reply.status, 0);
}

TEST_F(Http, IdleIsTimedFromTheLastByte) {
  for (const char* behaviour : {"stalled_before_reply", "stalled_stream"}) {
    ModelServer server;
    server.behave(behaviour);
    HttpRequest request = request_to(server.url());
    request.idle_timeout_s = 0.3;
    const HttpReply reply = send(request);
    EXPECT_EQ(reply.trouble, HttpTrouble::idle) << behaviour << ": " << reply.what;
    EXPECT_GE(reply.seconds, 0.3);
    EXPECT_LT(reply.seconds, 3);
    EXPECT_THAT(reply.what, HasSubstr("300 ms"));
  }
}

TEST_F(Http, AByteASecondIsNotIdleButMeetsTheLimitOnTheWhole) {
  server_.behave("slow_loris");
  HttpRequest request = request_to(server_.url());
  request.idle_timeout_s = 1.8;
  request.total_timeout_s = 2.5;
  const HttpReply reply = send(request);
  EXPECT_EQ(reply.trouble, HttpTrouble::total_timeout) << reply.what;
  EXPECT_GE(reply.body_bytes, 1);
  EXPECT_GE(reply.seconds, 2.5);
  EXPECT_LT(reply.seconds, 5);
}

TEST_F(Http, AReplyAboveTheLimitIsEnded) {
  const HttpReply reply = sent_to("huge_reply");
  EXPECT_EQ(reply.trouble, HttpTrouble::too_large);
  EXPECT_GT(reply.body_bytes, 64 << 20);
  EXPECT_LT(reply.body_bytes, 65 << 20);
  EXPECT_LE(streamed_.size(), 64u << 20);

  HttpRequest exact = request_to(server_.behave("good").url());
  exact.max_bytes = send(exact).body_bytes;
  EXPECT_TRUE(send(exact).ok());
  exact.max_bytes -= 1;
  EXPECT_EQ(send(exact).trouble, HttpTrouble::too_large);
}

TEST_F(Http, HeadersWithoutEndAreEnded) {
  const HttpReply reply = sent_to("huge_headers");
  EXPECT_EQ(reply.trouble, HttpTrouble::too_large);
  EXPECT_LT(reply.headers.size(), 300u);
}

TEST_F(Http, NobodyListens) {
  const ClosedPort closed;
  const HttpReply reply = send(request_to(at(closed.port())));
  EXPECT_EQ(reply.trouble, HttpTrouble::connect);
  EXPECT_EQ(reply.status, 0);
  EXPECT_THAT(reply.what, HasSubstr("Connection refused"));
}

TEST_F(Http, ConnectingIsTimed) {
  const DeafPort deaf;
  HttpRequest request = request_to(at(deaf.port()));
  request.connect_timeout_s = 0.3;
  request.idle_timeout_s = 0.1;  // begins when connected
  const HttpReply reply = send(request);
  EXPECT_EQ(reply.trouble, HttpTrouble::connect) << reply.what;
  EXPECT_GE(reply.seconds, 0.29);
  EXPECT_LT(reply.seconds, 3);
}

TEST_F(Http, AHandshakeThatNobodyAnswersIsTimedAsConnecting) {
  HttpRequest request = request_to("https://127.0.0.1:" + std::to_string(server_.port()));
  request.connect_timeout_s = 0.3;
  EXPECT_EQ(send(request).trouble, HttpTrouble::connect);
}

TEST_F(Http, NoSuchHost) {
  // Longer than a name may be: refused before any name server is asked.
  const HttpReply reply = send(request_to("http://" + std::string(70, 'h') + ".invalid"));
  EXPECT_EQ(reply.trouble, HttpTrouble::resolve) << reply.what;
}

TEST_F(Http, BadUrlsMethodsAndHeadersAreNotSent) {
  for (const char* url : {"", "nonsense", "ftp://127.0.0.1/x", "file:///etc/passwd", "http://",
                          "http://127.0.0.1:99999/", "127.0.0.1/v1", "http://a b/"}) {
    HttpRequest request = request_to("");
    request.url = url;
    EXPECT_EQ(send(request).trouble, HttpTrouble::bad_url) << url;
  }
  HttpRequest request = request_to(server_.url());
  request.method = "GET /x HTTP/1.1\r\n";
  EXPECT_EQ(send(request).trouble, HttpTrouble::bad_url);
  request = request_to(server_.url());
  request.headers.emplace_back("X-Key", std::string(secret) + "\r\nX-Other: 1");
  const HttpReply reply = send(request);
  EXPECT_EQ(reply.trouble, HttpTrouble::bad_url);
  EXPECT_THAT(reply.what, HasSubstr("X-Key"));
  request = request_to(server_.url());
  request.headers.emplace_back("X Key", "1");
  EXPECT_EQ(send(request).trouble, HttpTrouble::bad_url);
  EXPECT_EQ(server_.requests().size(), 0u);
}

TEST_F(Http, ACertificateThatNobodyVouchesForIsTls) {
  const ModelServer server(ModelServer::Transport::tls);
  HttpRequest request = request_to(server.url());
  const HttpReply reply = send(request);
  EXPECT_EQ(reply.trouble, HttpTrouble::tls) << reply.what;
  EXPECT_THAT(reply.what, HasSubstr("self-signed certificate"));
  EXPECT_EQ(server.requests().size(), 0u);  // the key has not left
  request.ca_file = server.ca_file();
  EXPECT_TRUE(send(request).ok());
  request.url = "https://localhost:" + std::to_string(server.port()) + "/chat/completions";
  EXPECT_EQ(send(request).trouble, HttpTrouble::tls);  // of another host
  request.ca_file = "/no/such/file.pem";
  EXPECT_EQ(send(request).trouble, HttpTrouble::tls);
}

TEST_F(Http, AProxyThatIsNotThere) {
  const ClosedPort closed;
  HttpRequest request = request_to(server_.url());
  request.proxy = at(closed.port());
  EXPECT_EQ(send(request).trouble, HttpTrouble::proxy);
  request.proxy.clear();
  ::setenv("http_proxy", at(closed.port()).c_str(), 1);
  EXPECT_EQ(send(request).trouble, HttpTrouble::proxy);
  ::setenv("no_proxy", "127.0.0.1", 1);
  EXPECT_TRUE(send(request).ok());
  request.proxy = at(closed.port());  // no_proxy is about the environment's
  EXPECT_EQ(send(request).trouble, HttpTrouble::proxy);
}

TEST_F(Http, AProxyThatRefuses) {
  server_.behave("proxy_denied");
  HttpRequest request = request_to("https://api.example.invalid");
  request.proxy =
      "http://user:" + std::string(secret) + "@127.0.0.1:" + std::to_string(server_.port());
  const HttpReply reply = send(request);
  EXPECT_EQ(reply.trouble, HttpTrouble::proxy) << reply.what;
  EXPECT_THAT(reply.what, HasSubstr("407"));
  EXPECT_EQ(server_.requests().at(0).method, "CONNECT");
  EXPECT_EQ(server_.requests().at(0).header("authorization"), "");  // the key is not for it
}

TEST_F(Http, SecretsOfUrlAndProxyAreNotShown) {
  const ClosedPort closed;
  HttpRequest request = request_to("");
  for (const std::string& url :
       {"http://user:" + std::string(secret) + "@127.0.0.1:" + std::to_string(closed.port()),
        at(closed.port()) + "/?key=" + secret, std::string("http:// ") + secret,
        std::string("gopher://") + secret, std::string(secret)}) {
    request.url = url;
    EXPECT_NE(send(request).trouble, HttpTrouble::none);  // and send() looks for the secret
  }
  request = request_to(server_.url());
  for (const std::string& proxy :
       {std::string("strange://u:") + secret + "@127.0.0.1:1", std::string(secret) + ":x:y:z"}) {
    request.proxy = proxy;
    EXPECT_EQ(send(request).trouble, HttpTrouble::proxy) << proxy;
  }
}

TEST_F(Http, ASinkThatSaysNoEndsIt) {
  server_.behave("huge_reply");
  const HttpReply reply =
      http_request(request_to(server_.url()), [](std::string_view) { return false; }, {});
  EXPECT_EQ(reply.trouble, HttpTrouble::stopped);
  EXPECT_EQ(reply.status, 200);
  EXPECT_LT(reply.body_bytes, 1 << 20);
}

// Seconds from the stop, which comes when `ready` returns, to the end of the request.
double seconds_to_stop(const HttpRequest& request, const std::function<void()>& ready) {
  std::stop_source source;
  int64_t stopped_us = 0;
  std::thread stopper([&] {
    ready();
    stopped_us = monotonic_us();
    source.request_stop();
  });
  const HttpReply reply = http_request(request, {}, source.get_token());
  const int64_t end_us = monotonic_us();
  stopper.join();
  EXPECT_EQ(reply.trouble, HttpTrouble::stopped) << reply.what;
  return static_cast<double>(end_us - stopped_us) / 1e6;
}

TEST_F(Http, AStopEndsItWithinAFifthOfASecond) {
  for (const char* behaviour : {"stalled_before_reply", "stalled_stream", "slow_loris"}) {
    ModelServer server;
    server.behave(behaviour);
    EXPECT_LT(seconds_to_stop(request_to(server.url()), [&] { server.wait_for_requests(1); }), 0.2)
        << behaviour;
  }
  const DeafPort deaf;
  EXPECT_LT(seconds_to_stop(request_to(at(deaf.port())), [&] { deaf.wait_for_caller(); }), 0.2);
  server_.behave("stalled_before_reply");  // its handshake is never answered
  const std::string silent = "https://127.0.0.1:" + std::to_string(server_.port());
  EXPECT_LT(seconds_to_stop(request_to(silent), [&] { server_.wait_for_connection(); }), 0.2);
}

TEST_F(Http, AStopBeforehandSendsNothing) {
  std::stop_source source;
  source.request_stop();
  EXPECT_EQ(http_request(request_to(server_.url()), {}, source.get_token()).trouble,
            HttpTrouble::stopped);
  EXPECT_EQ(server_.requests().size(), 0u);
}

TEST_F(Http, NoEndLeavesAFileAThreadOrASignalBehind) {
  const ClosedPort closed;
  const auto every_end = [&] {
    for (const char* behaviour : {"good", "429", "reset_before_reply", "reset_in_stream",
                                  "stalled_stream", "not_http", "huge_error", "huge_event"}) {
      ModelServer server;
      server.behave(behaviour);
      HttpRequest request = request_to(server.url());
      request.idle_timeout_s = 0.1;
      request.max_bytes = 1 << 20;
      send(request);
    }
    const ModelServer server(ModelServer::Transport::tls);
    send(request_to(server.url()));
    send(request_to(at(closed.port())));
    send(request_to("http://" + std::string(70, 'h') + ".invalid"));
    seconds_to_stop(request_to(at(DeafPort().port())), [] {});
  };
  every_end();  // what libraries open once
  const int64_t files = open_files(), threads = live_threads();
  sigset_t before, after;
  pthread_sigmask(SIG_SETMASK, nullptr, &before);
  for (int i = 0; i < 3; ++i) every_end();
  pthread_sigmask(SIG_SETMASK, nullptr, &after);
  EXPECT_EQ(open_files(), files);
  EXPECT_EQ(live_threads(), threads);
  EXPECT_EQ(sigismember(&before, SIGPIPE), sigismember(&after, SIGPIPE));
}

TEST_F(Http, ManyAtOnce) {
  std::vector<std::thread> threads;
  std::vector<HttpReply> replies(16);
  for (HttpReply& reply : replies)
    threads.emplace_back([&] { reply = send(request_to(server_.url())); });
  for (std::thread& thread : threads) thread.join();
  for (const HttpReply& reply : replies) EXPECT_TRUE(reply.ok()) << reply.what;
  EXPECT_EQ(server_.requests().size(), replies.size());
}

TEST(HttpTrouble, HasAWord) {
  EXPECT_EQ(to_string(HttpTrouble::none), "none");
  EXPECT_EQ(to_string(HttpTrouble::total_timeout), "total_timeout");
  EXPECT_EQ(to_string(HttpTrouble::other), "other");
}

}  // namespace
}  // namespace marathon
