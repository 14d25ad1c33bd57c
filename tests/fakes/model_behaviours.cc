// The faults by name: what real servers, gateways and proxies have been seen to send.
#include <fmt/format.h>

#include <ctime>
#include <functional>
#include <map>
#include <stdexcept>

#include "fakes/model_play.h"

namespace marathon::fake {

namespace {

using Headers = std::string;  // each with its CRLF

std::string chunk_of(std::string_view bytes) {
  return fmt::format("{:x}\r\n{}\r\n", bytes.size(), bytes);
}

Play whole(const std::string& status, const std::string& body, const Headers& headers = "",
           const char* type = "application/json") {
  return {
      {{fmt::format("HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n{}"
                    "Connection: close\r\n\r\n{}",
                    status, type, body.size(), headers, body)}}};
}

const char* const stream_head =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
    "Transfer-Encoding: chunked\r\nx-request-id: req_fake\r\nConnection: close\r\n\r\n";

Play stream(const std::vector<std::string>& pieces) {
  Play play{{{stream_head}}};
  for (const std::string& piece : pieces) play.steps.push_back({chunk_of(piece)});
  play.steps.push_back({"0\r\n\r\n"});
  return play;
}

Play stream(bool anthropic, const ScriptedAnswer& answer, const StreamChoice& choice = {}) {
  return stream({sse_text(stream_of(anthropic, answer, choice))});
}

// The beginning of a good stream: its first text has come, its end has not.
std::string beginning(bool anthropic) {
  std::vector<StreamEvent> events = stream_of(anthropic, {"", "Жили-были two halves", {}});
  events.resize(anthropic ? 4 : 2);
  return sse_text(events);
}

Play cut(bool anthropic, End end) {
  return {{{stream_head}, {chunk_of(beginning(anthropic))}}, end};
}

// ---- bodies of errors

std::string openai_error(const std::string& message, const std::string& type,
                         const std::string& code) {
  return fmt::format(R"({{"error":{{"message":"{}","type":"{}","param":null,"code":{}}}}})",
                     message, type, code.empty() ? "null" : "\"" + code + "\"");
}

std::string anthropic_error(const std::string& message, const std::string& type) {
  return fmt::format(
      R"({{"type":"error","error":{{"type":"{}","message":"{}"}},"request_id":"req_fake"}})", type,
      message);
}

std::string rate_limit(bool anthropic) {
  return anthropic ? anthropic_error(
                         "This request would exceed your organization's rate limit of 50 "
                         "requests per minute.",
                         "rate_limit_error")
                   : openai_error(
                         "Rate limit reached for fake-1 on requests per min (RPM): Limit 3, "
                         "Used 3, Requested 1. Please try again in 20s.",
                         "requests", "rate_limit_exceeded");
}

std::string server_error(bool anthropic) {
  return anthropic ? anthropic_error("Internal server error", "api_error")
                   : openai_error("The server had an error while processing your request.",
                                  "server_error", "");
}

std::string overloaded(bool anthropic) {
  return anthropic ? anthropic_error("Overloaded", "overloaded_error")
                   : openai_error("The engine is currently overloaded, please try again later.",
                                  "server_error", "overloaded");
}

const char* const gateway_page =
    "<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>\r\n<center><h1>502 Bad "
    "Gateway</h1></center>\r\n<hr><center>nginx/1.24.0</center>\r\n</body>\r\n</html>\r\n";

std::string http_date(int64_t from_now_s) {
  const time_t when = std::time(nullptr) + from_now_s;
  tm parts{};
  gmtime_r(&when, &parts);
  char text[64];
  return {text, std::strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &parts)};
}

Play limited(bool anthropic, const std::string& retry_after) {
  return whole("429 Too Many Requests", rate_limit(anthropic),
               retry_after.empty() ? "" : "Retry-After: " + retry_after + "\r\n");
}

Play bad_request(const std::string& body) { return whole("400 Bad Request", body); }

Play quota(bool anthropic) {
  if (anthropic)
    return bad_request(anthropic_error(
        "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing "
        "to upgrade or purchase credits.",
        "invalid_request_error"));
  return whole("429 Too Many Requests",
               openai_error("You exceeded your current quota, please check your plan and billing "
                            "details.",
                            "insufficient_quota", "insufficient_quota"));
}

Play bad_key(bool anthropic) {
  return whole("401 Unauthorized",
               anthropic
                   ? anthropic_error("invalid x-api-key", "authentication_error")
                   : openai_error("Incorrect API key provided: sk-fake*****cret. You can find "
                                  "your API key at https://platform.openai.com.",
                                  "invalid_request_error", "invalid_api_key"));
}

Play no_model(bool anthropic) {
  return whole("404 Not Found",
               anthropic ? anthropic_error("model: fake-1", "not_found_error")
                         : openai_error("The model `fake-1` does not exist or you do not have "
                                        "access to it.",
                                        "invalid_request_error", "model_not_found"));
}

Play error_in_stream(bool anthropic, const std::string& error) {
  return stream({beginning(anthropic), sse_text({{anthropic ? "error" : "", error}})});
}

// ---- odd streams

const ScriptedAnswer good{"", "Привет, 世界 \U0001F600!", {}};
const ScriptedAnswer two_calls_one_id{
    "",
    "",
    {{"call_1", "read_file", R"({"path":"a"})"}, {"call_1", "read_file", R"({"path":"b"})"}}};
const ScriptedAnswer cut_call{"", "", {{"call_1", "write_file", R"({"path":"a","text":"unfin)"}}};

Play split_utf8(bool anthropic) {
  std::vector<std::string> bytes;
  for (const char c : sse_text(stream_of(anthropic, good))) bytes.emplace_back(1, c);
  return stream(bytes);
}

Play crlf(bool anthropic) {
  return stream({": OPENROUTER PROCESSING\r\n\r\n", sse_text(stream_of(anthropic, good), "\r\n"),
                 ": bye\r\n\r\n"});
}

// The whole stream, and then the server keeps the connection.
Play stays_open(bool anthropic) {
  Play play = stream(anthropic, good);
  play.steps.pop_back();
  play.end = End::stall;
  return play;
}

// Up to the stop reason; usage (OpenAI) and the mark of the end do not come.
Play stalls_behind_stop(bool anthropic) {
  std::vector<StreamEvent> events = stream_of(anthropic, good);
  events.resize(events.size() - (anthropic ? 1 : 2));
  return {{{stream_head}, {chunk_of(sse_text(events))}}, End::stall};
}

Play slow_loris(bool anthropic) {
  Play play{{{stream_head}}};
  const int pause_ms = 1000;
  for (const char c : sse_text(stream_of(anthropic, good)))
    play.steps.push_back({chunk_of({&c, 1}), 1, pause_ms});
  return play;
}

// 100 MB of text that is well formed as far as it goes.
Play huge_reply(bool anthropic) {
  const std::vector<StreamEvent> events =
      stream_of(anthropic, {"", std::string(128 << 10, 'x'), {}});
  const std::string text = sse_text({events[anthropic ? 3 : 1]});
  return {{{stream_head},
           {chunk_of(beginning(anthropic))},
           {chunk_of(text), (100 << 20) / static_cast<int64_t>(text.size()) + 1}}};
}

// One event without an end.
Play huge_event(bool) {
  return {{{stream_head}, {chunk_of("data: ")}, {chunk_of(std::string(64 << 10, 'x')), 400}}};
}

using Make = std::function<Play(bool anthropic)>;

const std::map<std::string, Make, std::less<>>& table() {
  static const std::map<std::string, Make, std::less<>> all{
      {"good", [](bool a) { return stream(a, good); }},
      // Statuses.
      {"429", [](bool a) { return limited(a, ""); }},
      {"429_seconds", [](bool a) { return limited(a, "7"); }},
      {"429_date", [](bool a) { return limited(a, http_date(60)); }},
      {"429_days", [](bool a) { return limited(a, "259200"); }},
      {"429_strange", [](bool a) { return limited(a, "soon"); }},
      {"500", [](bool a) { return whole("500 Internal Server Error", server_error(a)); }},
      {"502", [](bool) { return whole("502 Bad Gateway", gateway_page, "", "text/html"); }},
      {"503",
       [](bool a) {
         return whole("503 Service Unavailable", overloaded(a), "Retry-After: 3\r\n");
       }},
      {"529", [](bool a) { return whole("529 ", overloaded(a)); }},
      {"quota", quota},
      {"bad_key", bad_key},
      {"model_not_found", no_model},
      {"bad_request",
       [](bool a) {
         return bad_request(
             a ? anthropic_error("max_tokens: Input should be greater than or equal to 1",
                                 "invalid_request_error")
               : openai_error("Unknown parameter: 'foo'.", "invalid_request_error",
                              "unknown_parameter"));
       }},
      {"redirect",
       [](bool) {
         return whole("307 Temporary Redirect", "", "Location: http://127.0.0.1:9/elsewhere\r\n");
       }},
      {"huge_error",
       [](bool) {
         Play play = {{{"HTTP/1.1 500 Internal Server Error\r\nConnection: close\r\n\r\n"}}};
         play.steps.push_back({std::string(64 << 10, 'e'), 1600});
         return play;
       }},
      {"proxy_denied",
       [](bool) {
         return whole("407 Proxy Authentication Required", "",
                      "Proxy-Authenticate: Basic realm=\"x\"\r\n");
       }},
      // A request that is larger than the model's window, in each server's words.
      {"overflow_openai",
       [](bool) {
         return bad_request(
             openai_error("This model's maximum context length is 128000 tokens. However, your "
                          "messages resulted "
                          "in 150000 tokens. Please reduce the length of the messages.",
                          "invalid_request_error", "context_length_exceeded"));
       }},
      {"overflow_anthropic",
       [](bool) {
         return bad_request(anthropic_error("prompt is too long: 210000 tokens > 200000 maximum",
                                            "invalid_request_error"));
       }},
      {"overflow_vllm",
       [](bool) {
         return bad_request(
             R"({"object":"error","message":"This model's maximum context length is 4096 tokens. )"
             R"(However, you requested 5000 tokens (4500 in the messages, 500 in the completion). )"
             R"(Please reduce the length of the messages or completion.","type":"BadRequestError",)"
             R"("param":null,"code":400})");
       }},
      {"overflow_llamacpp",
       [](bool) {
         return bad_request(
             R"({"error":{"code":400,"message":"the request exceeds the available context size, )"
             R"(try increasing it","type":"exceed_context_size_error","n_prompt_tokens":5000,)"
             R"("n_ctx":4096}})");
       }},
      {"overflow_ollama",
       [](bool) {
         return bad_request(
             openai_error("prompt too long; exceeded max context length by 904 tokens",
                          "invalid_request_error", ""));
       }},
      // The connection.
      {"reset_before_reply",
       [](bool) {
         return Play{{}, End::reset};
       }},
      {"close_before_reply",
       [](bool) {
         return Play{{}, End::close};
       }},
      {"stalled_before_reply",
       [](bool) {
         return Play{{}, End::stall};
       }},
      {"reset_in_stream", [](bool a) { return cut(a, End::reset); }},
      {"close_in_stream", [](bool a) { return cut(a, End::close); }},
      {"stalled_stream", [](bool a) { return cut(a, End::stall); }},
      {"slow_loris", slow_loris},
      {"not_http", [](bool) { return Play{{{"SSH-2.0-OpenSSH_9.2p1\r\n"}}}; }},
      {"huge_headers",
       [](bool) {
         return Play{
             {{"HTTP/1.1 200 OK\r\n"}, {"X-Junk: " + std::string(1000, 'j') + "\r\n", 400}}};
       }},
      {"interim_reply",
       [](bool a) {
         Play play = stream(a, good);
         play.steps.insert(play.steps.begin(),
                           {"HTTP/1.1 103 Early Hints\r\nX-Early: yes\r\n\r\n"});
         return play;
       }},
      // The stream.
      {"ends_without_mark", [](bool a) { return stream({beginning(a)}); }},
      {"split_utf8", split_utf8},
      {"crlf", crlf},
      {"usage_missing",
       [](bool a) {
         return stream(a, good, {"", false});
       }},
      {"arguments_cut",
       [](bool a) {
         return stream(a, cut_call, {a ? "max_tokens" : "length", true});
       }},
      {"same_id_twice", [](bool a) { return stream(a, two_calls_one_id); }},
      {"empty_reply", [](bool a) { return stream(a, {}); }},
      {"only_reasoning",
       [](bool a) {
         return stream(a, {"Let me think.", "", {}});
       }},
      {"content_filter",
       [](bool a) {
         return stream(a, {"", "I can", {}}, {a ? "refusal" : "content_filter", true});
       }},
      {"length",
       [](bool a) {
         return stream(a, {"", "And then", {}}, {a ? "max_tokens" : "length", true});
       }},
      {"error_in_stream", [](bool a) { return error_in_stream(a, server_error(a)); }},
      {"overloaded_in_stream", [](bool a) { return error_in_stream(a, overloaded(a)); }},
      {"no_json_in_stream",
       [](bool a) {
         return stream({beginning(a), "data: {\"cut\n\n"});
       }},
      {"stays_open", stays_open},
      {"stalls_behind_stop", stalls_behind_stop},
      {"huge_reply", huge_reply},
      {"huge_event", huge_event},
      // Something else than a stream, with status 200.
      {"json_instead_of_stream", [](bool a) { return whole("200 OK", whole_of(a, good)); }},
      {"json_error_with_200", [](bool a) { return whole("200 OK", overloaded(a)); }},
      {"html_with_200", [](bool) { return whole("200 OK", gateway_page, "", "text/html"); }},
      {"nothing_with_200", [](bool) { return whole("200 OK", ""); }},
  };
  return all;
}

}  // namespace

Play play_of(std::string_view behaviour, bool anthropic) {
  const auto found = table().find(behaviour);
  if (found == table().end())
    throw std::invalid_argument("no such behaviour of the model's server: " +
                                std::string(behaviour));
  return found->second(anthropic);
}

Play play_of(const ScriptedAnswer& answer, bool anthropic) { return stream(anthropic, answer); }

}  // namespace marathon::fake

namespace marathon {

std::vector<std::string> model_behaviours() {
  std::vector<std::string> names;
  for (const auto& [name, make] : fake::table()) names.push_back(name);
  return names;
}

}  // namespace marathon
