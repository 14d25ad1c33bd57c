// What libcurl's end of a transfer means, in our words.
#include <curl/curl.h>
#include <fmt/format.h>
#include <openssl/x509_vfy.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <memory>

#include "base/http_curl.h"

namespace marathon {

namespace {

std::string part_of(CURLU* url, CURLUPart part, unsigned flags = 0) {
  char* text = nullptr;
  if (curl_url_get(url, part, &text, flags) != CURLUE_OK) return "";
  const std::unique_ptr<char, void (*)(void*)> owner(text, curl_free);
  return text;
}

bool is_token(std::string_view text) {
  const auto fits = [](unsigned char c) {
    return std::isalnum(c) || std::strchr("!#$%&'*+-.^_`|~", c) != nullptr;
  };
  return !text.empty() && std::all_of(text.begin(), text.end(), fits);
}

bool holds_control(std::string_view text) {
  const auto control = [](unsigned char c) { return (c < 0x20 && c != '\t') || c == 0x7f; };
  return std::any_of(text.begin(), text.end(), control);
}

long info_of(const CurlEnd& end, CURLINFO what) {
  long value = 0;
  curl_easy_getinfo(static_cast<CURL*>(end.easy), what, &value);
  return value;
}

bool looked_up(const CurlEnd& end) {
  curl_off_t time_us = 0;
  curl_easy_getinfo(static_cast<CURL*>(end.easy), CURLINFO_NAMELOOKUP_TIME_T, &time_us);
  return time_us > 0;
}

// A connection that ended inside of the handshake is no fault of a certificate.
HttpTrouble handshake_trouble(const CurlEnd& end) {
  const long error_number = info_of(end, CURLINFO_OS_ERRNO);
  if (error_number == ECONNRESET || error_number == EPIPE) return HttpTrouble::reset;
  for (const char* cut : {"SSL_ERROR_SYSCALL", "unexpected eof", "Connection reset"})
    if (end.text.find(cut) != std::string::npos) return HttpTrouble::reset;
  return HttpTrouble::tls;
}

bool proxy_refused(const CurlEnd& end) {
  const long status = info_of(end, CURLINFO_HTTP_CONNECTCODE);
  return status != 0 && status / 100 != 2;
}

// What the certificate's check or the operating system adds, or "".
std::string detail_of(const CurlEnd& end, HttpTrouble trouble) {
  if (trouble == HttpTrouble::tls) {
    const long verified = info_of(end, CURLINFO_SSL_VERIFYRESULT);
    if (verified != X509_V_OK) return X509_verify_cert_error_string(verified);
    return "";
  }
  const long status = info_of(end, CURLINFO_HTTP_CONNECTCODE);
  if (trouble == HttpTrouble::proxy && status != 0)
    return fmt::format("the proxy answered with status {}", status);
  const long error_number = info_of(end, CURLINFO_OS_ERRNO);
  return error_number == 0 ? "" : std::strerror(static_cast<int>(error_number));
}

}  // namespace

std::string HttpTarget::text() const {
  const bool usual = port == (scheme == "https" ? 443 : 80);
  return usual ? scheme + "://" + host : fmt::format("{}://{}:{}", scheme, host, port);
}

std::string check_request(const HttpRequest& request, HttpTarget& target) {
  const std::unique_ptr<CURLU, void (*)(CURLU*)> url(curl_url(), curl_url_cleanup);
  if (request.url.find('\0') != std::string::npos || holds_control(request.url) ||
      curl_url_set(url.get(), CURLUPART_URL, request.url.c_str(), CURLU_NON_SUPPORT_SCHEME) !=
          CURLUE_OK)
    return "The URL of the request is not one: write it as https://host/path.";
  target.scheme = part_of(url.get(), CURLUPART_SCHEME);
  target.host = part_of(url.get(), CURLUPART_HOST);
  if (target.scheme != "http" && target.scheme != "https")
    return "Only http and https are spoken here: write the URL as https://host/path.";
  const std::string port = part_of(url.get(), CURLUPART_PORT, CURLU_DEFAULT_PORT);
  target.port = std::atoi(port.c_str());
  if (target.host.empty()) return "The URL of the request names no host.";
  if (!is_token(request.method)) return "The method of the request is no HTTP method.";
  for (const auto& [name, value] : request.headers) {
    if (!is_token(name)) return "The name of a header of the request is no HTTP name.";
    if (holds_control(value))
      return fmt::format(
          "The value of the header {} holds a line break or another control character: look at the "
          "key's file or variable.",
          name);
  }
  return "";
}

HttpTrouble trouble_of(const CurlEnd& end) {
  switch (static_cast<CURLcode>(end.code)) {
    case CURLE_OK:
      return HttpTrouble::none;
    case CURLE_URL_MALFORMAT:
      return HttpTrouble::bad_url;
    case CURLE_COULDNT_RESOLVE_HOST:
      return HttpTrouble::resolve;
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_PROXY:
      return HttpTrouble::proxy;
    case CURLE_OPERATION_TIMEDOUT:  // libcurl times the connection only
      if (!looked_up(end)) return end.over_proxy ? HttpTrouble::proxy : HttpTrouble::resolve;
      [[fallthrough]];
    case CURLE_COULDNT_CONNECT:
      return end.over_proxy ? HttpTrouble::proxy : HttpTrouble::connect;
    case CURLE_SSL_CONNECT_ERROR:
      return handshake_trouble(end);
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CIPHER:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_ISSUER_ERROR:
    case CURLE_SSL_INVALIDCERTSTATUS:
    case CURLE_SSL_ENGINE_INITFAILED:
      return HttpTrouble::tls;
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_GOT_NOTHING:
    case CURLE_PARTIAL_FILE:
      return proxy_refused(end) ? HttpTrouble::proxy : HttpTrouble::reset;
    default:  // of a hundred codes, most belong to other protocols
      return HttpTrouble::other;
  }
}

std::string words_of(const CurlEnd& end, HttpTrouble trouble, const HttpTarget& target) {
  const std::string detail = detail_of(end, trouble);
  const char* words = curl_easy_strerror(static_cast<CURLcode>(end.code));
  std::string what = fmt::format("No whole reply from {}: {}", target.text(), words);
  if (!detail.empty()) what += fmt::format(" ({})", detail);
  switch (trouble) {
    case HttpTrouble::tls:
      return what +
             ". Look at the certificate, the clock of this machine and the file of authorities.";
    case HttpTrouble::proxy:
      return what + ". The proxy is the one that the environment or the configuration names.";
    case HttpTrouble::none:
    case HttpTrouble::bad_url:
    case HttpTrouble::resolve:
    case HttpTrouble::connect:
    case HttpTrouble::reset:
    case HttpTrouble::idle:
    case HttpTrouble::total_timeout:
    case HttpTrouble::too_large:
    case HttpTrouble::stopped:
    case HttpTrouble::other:
      break;
  }
  return what + ".";
}

}  // namespace marathon
