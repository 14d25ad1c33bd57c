// One HTTP request, by libcurl: streaming body, bounded in bytes and time, stoppable. http and
// https only; redirects are not followed (a key must not travel to another host). Linked as
// base_http, which is not part of base's library: the judge's programs do not load libcurl.
#pragma once

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace marathon {

struct HttpRequest {
  std::string method = "POST";
  std::string url;
  std::vector<std::pair<std::string, std::string>> headers;  // may hold a key: never printed
  std::string body;
  double connect_timeout_s = 20;  // look-up, connection and handshake
  double idle_timeout_s = 180;    // connected, and without one byte in either direction
  double total_timeout_s = 3600;
  int64_t max_bytes = 64LL << 20;  // of the reply's body
  std::string proxy;               // empty: from the environment (HTTPS_PROXY, NO_PROXY …)
  std::string ca_file;             // these authorities only; empty: the system's
};

// Why there is no whole reply. The caller decides by it whether the same request may be sent again.
enum class HttpTrouble : uint8_t {
  none,
  bad_url,        // or method or header: no request was sent
  resolve,        // no such host, or no name server
  connect,        // nobody listens there, or no route
  proxy,          // the proxy refused or is not there
  tls,            // certificate or handshake
  reset,          // the connection ended before the reply did
  idle,           // idle_timeout_s
  total_timeout,  // total_timeout_s
  too_large,      // max_bytes, or 256 KiB of headers
  stopped,        // the stop token, or the sink said so
  other,
};
std::string_view to_string(HttpTrouble trouble);

struct HttpReply {
  HttpTrouble trouble = HttpTrouble::none;
  std::string what;  // for people; holds neither headers nor body of the request
  int status = 0;    // 0: no status line came
  std::vector<std::pair<std::string, std::string>> headers;  // names in lower case
  std::string body;  // of a status other than 2xx: its first MiB (no trouble when there is more);
                     // of 2xx when there is no sink: whole
  int64_t body_bytes = 0;  // received
  double seconds = 0;      // on the monotonic clock

  bool ok() const { return trouble == HttpTrouble::none && status >= 200 && status < 300; }
  std::string header(std::string_view lower_name) const;  // "" when absent
};

// Takes the body of a 2xx reply as it comes, in any pieces. False ends the transfer (stopped).
using HttpSink = std::function<bool(std::string_view piece)>;

// Never throws, never blocks beyond its limits; a stop ends it within 0.2 s.
HttpReply http_request(const HttpRequest& request, const HttpSink& sink, std::stop_token stop);

}  // namespace marathon
