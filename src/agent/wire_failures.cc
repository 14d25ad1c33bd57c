// What an error of an API means, from status, type, code and wording. The two APIs are read alike:
// many servers speak one of them with the errors of the other, or with their own.
#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <ctime>
#include <nlohmann/json.hpp>
#include <span>

#include "agent/wire.h"

namespace marathon {

namespace {

using namespace std::string_view_literals;

constexpr size_t max_message_bytes = 500;

using Words = std::span<const std::string_view>;

// Codes and types: parts of "type code status", in lower case.
constexpr std::array<std::string_view, 6> overflow_codes = {
    "context_length_exceeded", "exceed_context_size",  "context_window_exceeded",
    "request_too_large",       "string_above_max_len", "max_context_length"};
constexpr std::array<std::string_view, 11> quota_codes = {
    "insufficient_quota",   "exceeded_current_quota", "billing",          "insufficient_balance",
    "insufficient_credits", "insufficient_funds",     "payment_required", "spend_limit_reached",
    "usage_limit_reached",  "credits_exhausted",      "access_terminated"};
constexpr std::array<std::string_view, 5> filter_codes = {
    "content_filter", "content_policy", "responsibleaipolicy", "data_inspection_failed",
    "moderation_blocked"};
constexpr std::array<std::string_view, 3> model_codes = {"model_not_found", "not_found_error",
                                                         "deploymentnotfound"};
constexpr std::array<std::string_view, 7> overload_codes = {
    "overloaded",    "unavailable", "insufficient_system_resource", "slow_down", "capacity",
    "over_capacity", "loading"};
constexpr std::array<std::string_view, 4> rate_codes = {"rate_limit", "too_many_requests",
                                                        "ramp_limit", "throttl"};
constexpr std::array<std::string_view, 7> auth_codes = {
    "authentication", "invalid_api_key", "permission",         "unauthorized",
    "forbidden",      "unauthenticated", "unsupported_country"};
constexpr std::array<std::string_view, 4> request_codes = {"invalid_request", "invalid_argument",
                                                           "badrequest", "unprocessable"};

// Wordings: parts of the message, in lower case.
constexpr std::array<std::string_view, 34> overflow_words = {
    "prompt is too long",             // Anthropic
    "exceed context limit",           // Anthropic: input and max_tokens
    "maximum context length",         // OpenAI, vLLM, OpenRouter
    "exceeds the context window",     // OpenAI
    "configured limit of",            // OpenAI: input tokens exceed the configured limit of
    "request too large for",          // OpenAI, Groq: larger than a minute's tokens; never fits
    "reduce the length of the",       // vLLM, Groq
    "longer than the maximum model",  // vLLM: the prompt is longer than the maximum model length
    "max_tokens must be at least 1, got -",  // vLLM: nothing is left
    "longer than the model's context",       // SGLang
    "exceeds the available context size",    // llama.cpp
    "context size has been exceeded",        // llama.cpp
    "exceed context window of",              // llama-cpp-python
    "exceeds the context length",            // Ollama
    "exceeds maximum context",               // Ollama
    "exceeded max context length",           // Ollama
    "exceeds context length",                // Ollama
    "greater than the context length",       // LM Studio
    "context length of only",                // LM Studio
    "context the overflows",                 // LM Studio
    "`inputs` tokens + `max_new_tokens`",    // TGI, Together
    "inputs must have less than",            // TGI
    "input token count",                     // Gemini: … exceeds the maximum number of tokens
    "maximum prompt length",                 // xAI
    "exceeded model token limit",            // Moonshot
    "context window exceeds limit",          // MiniMax
    "range of input length should be",       // Qwen
    "prompt token count of",                 // GitHub Copilot
    "request body too large for",            // GitHub Models
    "input is too long",                     // Bedrock
    "too many input tokens",                 // Bedrock
    "exceeds model context window",
    "context length exceeded",
    "context window exceeded"};
constexpr std::array<std::string_view, 13> quota_words = {
    "credit balance is too low",   // Anthropic
    "specified api usage limits",  // Anthropic
    "insufficient balance",        // DeepSeek
    "insufficient credits",        // OpenRouter
    "requires more credits",       // OpenRouter
    "key limit exceeded",          // OpenRouter
    "insufficient funds",
    "insufficient quota",
    "billing hard limit",
    "billing is not active",
    "account is not active",
    "spending limit",
    "spend limit"};
constexpr std::array<std::string_view, 5> filter_words = {
    "content filtering policy", "content management policy", "content exists risk", "flagged for",
    "data may contain inappropriate content"};
constexpr std::array<std::string_view, 5> auth_words = {
    "api key not valid", "incorrect api key", "invalid api key", "invalid x-api-key", "no api key"};
constexpr std::array<std::string_view, 7> no_model_words = {
    "does not exist",    "not found",          "not exist",    "no such model",
    "not a valid model", "no endpoints found", "unknown model"};

bool has_any(std::string_view text, Words words) {
  for (const std::string_view word : words) {
    if (text.find(word) != std::string_view::npos) return true;
  }
  return false;
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

struct ErrorBody {
  std::string message;
  std::string codes;  // types and codes, in lower case
  int status = 0;     // that the body names
};

void take_code(ErrorBody& error, const Json& object, std::string_view key) {
  const std::string text = json_string(object, key);
  error.codes += " " + lower(text);
  int64_t status = json_int(object, key);
  std::from_chars(text.data(), text.data() + text.size(), status);
  if (status >= 400 && status < 600) error.status = static_cast<int>(status);
}

// One level of an error: its message and what classes it.
void take_object(ErrorBody& error, const Json& object) {
  for (const std::string_view key : {"message", "detail", "msg", "error", "title"}) {
    if (error.message.empty()) error.message = json_string(object, key);
  }
  for (const std::string_view key :
       {"type", "code", "status", "error_type", "error_code", "error", "reason"}) {
    if (key != "error" || !json_string(object, "type").empty()) take_code(error, object, key);
  }
}

// {"error": {…}}, {"error": "…"}, {"errors": [{…}]}, {"detail": [{"msg": …}]}, [{"error": {…}}],
// {"message": …}: the innermost object says the most.
void take_json(ErrorBody& error, const Json& json, int depth) {
  if (depth == 0) return;
  if (json.is_array() && !json.empty()) return take_json(error, json[0], depth - 1);
  if (!json.is_object()) return;
  for (const char* key : {"error", "errors", "details", "detail"}) {
    if (json.contains(key)) take_json(error, json[key], depth - 1);
  }
  take_object(error, json);
}

ErrorBody read_body(std::string_view body) {
  ErrorBody error;
  const Result<Json> json = parse_json(body);
  if (json) take_json(error, *json, 4);
  if (json && error.message.empty() && json->is_string()) error.message = json->get<std::string>();
  if (!json && !is_blank(body)) {
    const bool is_page = body.find('<') < 20;
    error.message = is_page ? "a page of HTML, so perhaps of a proxy" : std::string(body);
  }
  return error;
}

// For a line on a screen: no control characters, no character cut in its middle, and nothing that
// looks like a key (some servers repeat it).
std::string for_people(std::string_view message) {
  std::string text;
  size_t i = 0;
  for (; i < message.size() && text.size() < max_message_bytes; ++i) {
    if (message.substr(i).starts_with("sk-")) {
      const size_t end = message.find_first_of(" \t\r\n\"',;)", i);
      text += "sk-…";
      i = std::min(end, message.size()) - 1;
      continue;
    }
    const unsigned char c = static_cast<unsigned char>(message[i]);
    text += c < 0x20 || c == 0x7f ? ' ' : message[i];
  }
  if (i < message.size()) {
    while (!text.empty() && (static_cast<unsigned char>(text.back()) & 0xc0) == 0x80)
      text.pop_back();
    if (!text.empty() && static_cast<unsigned char>(text.back()) >= 0xc0) text.pop_back();
    text += "…";
  }
  const size_t first = text.find_first_not_of(' ');
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(' ') - first + 1);
}

ModelFault fault_of_status(int status) {
  switch (status) {
    case 401:
    case 403:
    case 407:
      return ModelFault::auth;
    case 402:
      return ModelFault::quota;
    case 404:
    case 410:
      return ModelFault::not_found;
    case 408:
    case 499:
      return ModelFault::network;
    case 409:
      return ModelFault::server;
    case 413:
      return ModelFault::context_overflow;
    case 425:
    case 498:  // Groq: no capacity now
    case 503:
    case 529:
      return ModelFault::overloaded;
    case 429:
      return ModelFault::rate_limited;
    default:
      break;
  }
  if (status >= 300 && status < 400) return ModelFault::not_found;  // the address is another
  return status >= 400 && status < 500 ? ModelFault::bad_request : ModelFault::server;
}

// Gemini has one wording for a minute's limit and for a used-up account; the former says when.
bool is_used_up(const ErrorBody& error, const std::string& message, int status) {
  if (has_any(error.codes, quota_codes) || has_any(message, quota_words) || status == 402)
    return true;
  return message.find("exceeded your current quota") != std::string::npos &&
         message.find("retry in") == std::string::npos;
}

bool is_without_model(const ErrorBody& error, const std::string& message, int status) {
  if (status >= 500 || status == 401 || status == 429) return false;
  if (has_any(error.codes, model_codes)) return true;
  return has_any(message, no_model_words) &&
         has_any(message, std::array{"model"sv, "no endpoints"sv});
}

ModelFault fault_of(const ErrorBody& error, int status) {
  const std::string message = lower(error.message);
  const bool may_overflow = status != 401 && status != 403;
  if (may_overflow && (has_any(error.codes, overflow_codes) || has_any(message, overflow_words)))
    return ModelFault::context_overflow;
  if (is_used_up(error, message, status)) return ModelFault::quota;
  if (has_any(error.codes, filter_codes) || has_any(message, filter_words))
    return ModelFault::content_filter;
  if (has_any(error.codes, overload_codes)) return ModelFault::overloaded;
  if (has_any(error.codes, rate_codes)) return ModelFault::rate_limited;
  if (has_any(error.codes, auth_codes) || has_any(message, auth_words)) return ModelFault::auth;
  if (is_without_model(error, message, status)) return ModelFault::not_found;
  if (status != 0) return fault_of_status(status);
  return has_any(error.codes, request_codes) ? ModelFault::bad_request : ModelFault::server;
}

ModelFault fault_of_trouble(HttpTrouble trouble) {
  switch (trouble) {
    case HttpTrouble::bad_url:
      return ModelFault::bad_request;
    case HttpTrouble::tls:
      return ModelFault::tls;
    case HttpTrouble::too_large:
      return ModelFault::malformed;
    case HttpTrouble::stopped:
      return ModelFault::cancelled;
    case HttpTrouble::none:
    case HttpTrouble::resolve:
    case HttpTrouble::connect:
    case HttpTrouble::proxy:
    case HttpTrouble::reset:
    case HttpTrouble::idle:
    case HttpTrouble::total_timeout:
    case HttpTrouble::other:
      return ModelFault::network;
  }
  return ModelFault::network;
}

std::optional<double> number_of(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  double value = 0;
  const char* end = text.data() + text.size();
  const std::from_chars_result parsed = std::from_chars(text.data(), end, value);
  const bool is_whole = parsed.ec == std::errc() && parsed.ptr == end && !text.empty();
  return is_whole && std::isfinite(value) && value >= 0 ? std::optional(value) : std::nullopt;
}

// The three forms of RFC 9110 §5.6.7, all in UTC.
std::optional<double> seconds_until(const std::string& date, int64_t now_us) {
  for (const char* form :
       {"%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"}) {
    std::tm time = {};
    const char* end = ::strptime(date.c_str(), form, &time);
    if (end == nullptr || *end != '\0') continue;
    const double at_s = static_cast<double>(::timegm(&time));
    return std::max(0.0, at_s - static_cast<double>(now_us) / 1e6);
  }
  return std::nullopt;
}

std::optional<double> retry_after_of(const HttpReply& reply, int64_t now_us) {
  const std::optional<double> ms = number_of(reply.header("retry-after-ms"));
  if (ms) return *ms / 1000;
  const std::string value = reply.header("retry-after");
  const std::optional<double> seconds = number_of(value);
  return seconds ? seconds : seconds_until(value, now_us);
}

}  // namespace

ModelFailure classify_error_body(WireApi api, int status, std::string_view body) {
  const ErrorBody error = read_body(body);
  ModelFailure failure;
  failure.status = status;
  // An error may come under a status that says nothing of it.
  failure.fault = fault_of(error, status >= 300 ? status : error.status);
  const std::string message = for_people(error.message);
  const std::string who =
      status != 0 ? fmt::format("The server answered {}", status)
                  : fmt::format("The server ({} API) reported an error", to_string(api));
  failure.what = message.empty() ? who + " and did not say why." : who + ": " + message;
  return failure;
}

ModelFailure classify_http(WireApi api, const HttpReply& reply, int64_t now_us) {
  ModelFailure failure;
  // A status says more than the trouble that came behind it.
  const bool has_answer = reply.status >= 300 && reply.trouble != HttpTrouble::stopped;
  if (has_answer || reply.trouble == HttpTrouble::none) {
    failure = classify_error_body(api, reply.status, reply.body);
  } else {
    failure.fault = fault_of_trouble(reply.trouble);
    failure.status = reply.status;
    failure.what = for_people(reply.what);
  }
  const std::string location = reply.header("location");
  if (reply.status >= 300 && reply.status < 400 && !location.empty()) {
    failure.what = for_people(fmt::format(
        "The server answered {} and points to {}: use that address.", reply.status, location));
  }
  failure.retry_after_s = retry_after_of(reply, now_us);
  failure.received_bytes = reply.body_bytes;
  return failure;
}

}  // namespace marathon
