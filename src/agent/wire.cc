// What does not depend on one API's format: names, addresses, headers.
#include "agent/wire.h"

#include <array>
#include <nlohmann/json.hpp>

namespace marathon {

namespace {

constexpr std::array<std::string_view, 14> fault_names = {
    "rate_limited",   "overloaded", "server", "network",   "context_overflow",
    "bad_request",    "auth",       "quota",  "not_found", "tls",
    "content_filter", "malformed",  "empty",  "cancelled"};
static_assert(fault_names.size() == static_cast<size_t>(ModelFault::cancelled) + 1);

// "scheme://host" without a path.
bool has_no_path(std::string_view url) {
  const size_t scheme = url.find("://");
  const size_t host = scheme == std::string_view::npos ? 0 : scheme + 3;
  return url.find('/', host) == std::string_view::npos;
}

}  // namespace

std::string_view to_string(ChatStop stop) {
  switch (stop) {
    case ChatStop::end:
      return "end";
    case ChatStop::calls:
      return "calls";
    case ChatStop::length:
      return "length";
    case ChatStop::content_filter:
      return "content_filter";
    case ChatStop::paused:
      return "paused";
  }
  return "";
}

std::string_view to_string(ModelFault fault) { return fault_names.at(static_cast<size_t>(fault)); }

std::optional<ModelFault> model_fault_from(std::string_view name) {
  for (size_t i = 0; i < fault_names.size(); ++i) {
    if (fault_names[i] == name) return static_cast<ModelFault>(i);
  }
  return std::nullopt;
}

std::string_view to_string(WireApi api) {
  switch (api) {
    case WireApi::openai:
      return "openai";
    case WireApi::anthropic:
      return "anthropic";
  }
  return "";
}

std::string key_in_header(std::string key) {
  std::erase_if(key, [](unsigned char c) { return c <= ' ' || c == 0x7f; });
  return key;
}

std::string request_url(WireApi api, const std::string& base_url) {
  const size_t query_at = std::min(base_url.find('?'), base_url.size());  // Azure's api-version
  std::string url = base_url.substr(0, query_at);
  while (url.ends_with('/')) url.pop_back();
  const std::string_view end = api == WireApi::openai ? "/chat/completions" : "/messages";
  if (!url.ends_with(end)) {
    const bool add_version = api == WireApi::openai ? has_no_path(url) : !url.ends_with("/v1");
    if (add_version) url += "/v1";
    url += end;
  }
  return url + base_url.substr(query_at);
}

std::vector<std::pair<std::string, std::string>> request_headers(WireApi api,
                                                                 const std::string& key) {
  std::vector<std::pair<std::string, std::string>> headers = {{"Content-Type", "application/json"},
                                                              {"Accept", "text/event-stream"}};
  if (api == WireApi::anthropic) headers.emplace_back("anthropic-version", "2023-06-01");
  const std::string clean = key_in_header(key);
  if (clean.empty()) return headers;  // a server of one's own wants none
  if (api == WireApi::openai) headers.emplace_back("Authorization", "Bearer " + clean);
  if (api == WireApi::anthropic) headers.emplace_back("x-api-key", clean);
  return headers;
}

std::string encode_request(WireApi api, const ChatRequest& request) {
  return api == WireApi::openai ? encode_openai(request) : encode_anthropic(request);
}

std::unique_ptr<ReplyDecoder> make_reply_decoder(WireApi api, OnDelta on_delta) {
  return api == WireApi::openai ? make_openai_decoder(std::move(on_delta))
                                : make_anthropic_decoder(std::move(on_delta));
}

}  // namespace marathon
