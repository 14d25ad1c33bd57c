#include "base/http.h"

#include <curl/curl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>

#include <algorithm>
#include <cctype>
#include <csignal>
#include <ctime>
#include <memory>
#include <utility>

#include "base/clock.h"
#include "base/http_curl.h"

namespace marathon {

namespace {

constexpr int64_t max_header_bytes = 256 << 10;
constexpr size_t max_error_body = 1 << 20;

// CURL and CURLM are both void.
template <auto release>
struct Release {
  template <class T>
  void operator()(T* what) const {
    release(what);
  }
};
using Easy = std::unique_ptr<CURL, Release<curl_easy_cleanup>>;
using Multi = std::unique_ptr<CURLM, Release<curl_multi_cleanup>>;
using List = std::unique_ptr<curl_slist, Release<curl_slist_free_all>>;

// A write to a connection that the other side has closed must not end the process, whatever the
// process does with SIGPIPE elsewhere.
class WithoutSigpipe {
 public:
  WithoutSigpipe() {
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  WithoutSigpipe(const WithoutSigpipe&) = delete;
  WithoutSigpipe& operator=(const WithoutSigpipe&) = delete;
  ~WithoutSigpipe() {
    const timespec now{};
    if (!was_pending_) sigtimedwait(&pipe_, nullptr, &now);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

 private:
  sigset_t pipe_{}, before_{};
  bool was_pending_ = false;
};

bool start_curl() {
  static const bool started = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
  return started;
}

std::string trimmed(std::string_view text) {
  const auto space = [](char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; };
  while (!text.empty() && space(text.front())) text.remove_prefix(1);
  while (!text.empty() && space(text.back())) text.remove_suffix(1);
  return std::string(text);
}

class Transfer {
 public:
  Transfer(const HttpRequest& request, const HttpSink& sink, const HttpTarget& target)
      : request_(request), sink_(sink), target_(target) {}

  HttpReply run(const std::stop_token& stop) {
    const WithoutSigpipe guard;
    const int64_t begin_us = monotonic_us();
    if (stop.stop_requested())
      give_up(HttpTrouble::stopped, "The request was stopped before it was sent.");
    else if (set_up())
      transfer(stop, begin_us);
    else
      give_up(HttpTrouble::other, "libcurl could not be set up: memory or its installation.");
    reply_.seconds = static_cast<double>(monotonic_us() - begin_us) / 1e6;
    return std::move(reply_);
  }

 private:
  bool set_up() {
    if (!start_curl()) return false;
    easy_.reset(curl_easy_init());
    multi_.reset(curl_multi_init());
    return easy_ && multi_ && set_limits() && set_request() && set_callbacks() && set_security();
  }

  template <class Value>
  bool set(CURLoption option, Value value) {
    return curl_easy_setopt(easy_.get(), option, value) == CURLE_OK;
  }

  bool set_limits() {
    const double connect_ms = std::clamp(request_.connect_timeout_s * 1000, 1.0, 1e9);
    return set(CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(connect_ms)) &&
           set(CURLOPT_NOSIGNAL, 1L) &&    // no alarm() for a look-up
           set(CURLOPT_QUICK_EXIT, 1L) &&  // a look-up under way does not hold us
           set(CURLOPT_TCP_KEEPALIVE, 1L) && set(CURLOPT_FORBID_REUSE, 1L);
  }

  bool set_security() {
    bool good = set(CURLOPT_PROTOCOLS_STR, "http,https") && set(CURLOPT_FOLLOWLOCATION, 0L) &&
                set(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L) &&
                set(CURLOPT_ERRORBUFFER, error_text_) &&
                set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
    if (!request_.ca_file.empty())
      good = good && set(CURLOPT_CAINFO, request_.ca_file.c_str()) &&
             set(CURLOPT_CAPATH, static_cast<char*>(nullptr));
    if (!request_.proxy.empty())  // NO_PROXY belongs to the environment's proxy
      good = good && set(CURLOPT_PROXY, request_.proxy.c_str()) && set(CURLOPT_NOPROXY, "");
    return good;
  }

  bool set_request() {
    bool good = set(CURLOPT_URL, request_.url.c_str()) &&
                set(CURLOPT_USERAGENT, "marathon/" MARATHON_VERSION);
    if (request_.method == "HEAD") {
      good = good && set(CURLOPT_NOBODY, 1L);
    } else if (request_.method != "GET" || !request_.body.empty()) {
      good = good && set(CURLOPT_POST, 1L) &&
             set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request_.body.size())) &&
             set(CURLOPT_POSTFIELDS, request_.body.data()) &&
             set(CURLOPT_CUSTOMREQUEST, request_.method.c_str());
    }
    add_header("Expect:");  // no "100-continue": some servers never answer it
    for (const auto& [name, value] : request_.headers)
      add_header(value.empty() ? name + ";" : fmt::format("{}: {}", name, value));
    return good && headers_ && set(CURLOPT_HTTPHEADER, headers_.get());
  }

  void add_header(const std::string& line) {
    if (curl_slist* list = curl_slist_append(headers_.get(), line.c_str())) {
      (void)headers_.release();
      headers_.reset(list);
    }
  }

  bool set_callbacks() {
    return set(CURLOPT_WRITEFUNCTION, &Transfer::on_body) && set(CURLOPT_WRITEDATA, this) &&
           set(CURLOPT_HEADERFUNCTION, &Transfer::on_header) && set(CURLOPT_HEADERDATA, this) &&
           set(CURLOPT_XFERINFOFUNCTION, &Transfer::on_progress) &&
           set(CURLOPT_XFERINFODATA, this) && set(CURLOPT_NOPROGRESS, 0L) &&
           set(CURLOPT_OPENSOCKETFUNCTION, &Transfer::open_socket) &&
           set(CURLOPT_OPENSOCKETDATA, this);
  }

  // ---- what libcurl calls

  static size_t on_body(char* bytes, size_t size, size_t count, void* self) {
    return static_cast<Transfer*>(self)->take_body({bytes, size * count}) ? size * count : 0;
  }
  static size_t on_header(char* bytes, size_t size, size_t count, void* self) {
    return static_cast<Transfer*>(self)->take_header({bytes, size * count}) ? size * count : 0;
  }
  static int on_progress(void* self, curl_off_t, curl_off_t down, curl_off_t, curl_off_t up) {
    auto* transfer = static_cast<Transfer*>(self);
    if (std::exchange(transfer->progress_, down + up) != down + up) transfer->touch();
    return 0;
  }
  // libcurl does not tell whether it goes over a proxy of the environment; the port does.
  static curl_socket_t open_socket(void* self, curlsocktype, curl_sockaddr* address) {
    auto* transfer = static_cast<Transfer*>(self);
    uint16_t port = 0;  // it stands at the same place for IPv4 and IPv6
    if (address->family == AF_INET || address->family == AF_INET6)
      port = ntohs(reinterpret_cast<const sockaddr_in*>(&address->addr)->sin_port);
    transfer->over_proxy_ = port != 0 && port != transfer->target_.port;
    return ::socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
  }

  void touch() { active_us_ = monotonic_us(); }

  bool take_header(std::string_view line) {
    touch();
    header_bytes_ += static_cast<int64_t>(line.size());
    if (header_bytes_ > max_header_bytes)
      return give_up(HttpTrouble::too_large, fmt::format("{} sent more than {} bytes of headers.",
                                                         target_.text(), max_header_bytes));
    if (line.starts_with("HTTP/")) reply_.headers.clear();  // what came before was a 1xx
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos || line.starts_with("HTTP/")) return true;
    std::string name = trimmed(line.substr(0, colon));
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    reply_.headers.emplace_back(std::move(name), trimmed(line.substr(colon + 1)));
    return true;
  }

  bool take_body(std::string_view piece) {
    reply_.body_bytes += static_cast<int64_t>(piece.size());
    read_status();
    if (reply_.status / 100 != 2) return take_error_body(piece);
    if (reply_.body_bytes > request_.max_bytes)
      return give_up(HttpTrouble::too_large, fmt::format("The reply of {} is larger than {} bytes.",
                                                         target_.text(), request_.max_bytes));
    if (!sink_) {
      reply_.body += piece;
    } else if (!sink_(piece)) {
      return give_up(HttpTrouble::stopped, "The reply was not wanted any longer.");
    }
    touch();  // the sink's time is not the server's
    return true;
  }

  bool take_error_body(std::string_view piece) {
    touch();
    const size_t most = std::min(max_error_body, static_cast<size_t>(request_.max_bytes));
    reply_.body += piece.substr(0, most - reply_.body.size());
    if (reply_.body.size() < most) return true;
    cut_error_body_ = true;
    return false;
  }

  void read_status() {
    long status = 0;
    curl_easy_getinfo(easy_.get(), CURLINFO_RESPONSE_CODE, &status);
    reply_.status = status >= 200 ? static_cast<int>(status) : 0;
  }

  bool give_up(HttpTrouble trouble, std::string what) {
    reply_.trouble = trouble;
    reply_.what = std::move(what);
    return false;
  }

  // ---- the loop

  void transfer(const std::stop_token& stop, int64_t begin_us) {
    touch();
    if (curl_multi_add_handle(multi_.get(), easy_.get()) != CURLM_OK) {
      give_up(HttpTrouble::other, "libcurl could not begin the transfer.");
      return;
    }
    {
      const std::stop_callback wake(stop, [this] { curl_multi_wakeup(multi_.get()); });
      while (!step(stop, begin_us)) {
      }
    }
    read_status();
    curl_multi_remove_handle(multi_.get(), easy_.get());
  }

  // True when the transfer is over.
  bool step(const std::stop_token& stop, int64_t begin_us) {
    int running = 0;
    const CURLMcode code = curl_multi_perform(multi_.get(), &running);
    if (reply_.trouble != HttpTrouble::none || cut_error_body_) return true;
    if (code != CURLM_OK) {
      give_up(HttpTrouble::other, "libcurl could not go on with the transfer.");
      return true;
    }
    int queued = 0;
    if (const CURLMsg* message = curl_multi_info_read(multi_.get(), &queued)) {
      take_end(message->data.result);
      return true;
    }
    if (stop.stop_requested()) {
      give_up(HttpTrouble::stopped, "The request was stopped.");
      return true;
    }
    const int64_t left_us = time_left_us(begin_us);
    if (left_us <= 0) return true;
    const auto wait_ms = static_cast<int>(std::min<int64_t>(left_us / 1000 + 1, 1000));
    curl_multi_poll(multi_.get(), nullptr, 0, wait_ms, nullptr);
    return false;
  }

  // Until the next limit; 0 when one has passed, which is then the trouble.
  int64_t time_left_us(int64_t begin_us) {
    curl_off_t connected_us = 0;
    curl_easy_getinfo(easy_.get(), CURLINFO_PRETRANSFER_TIME_T, &connected_us);
    if (connected_us == 0) touch();  // the limit on connecting is libcurl's
    const int64_t now_us = monotonic_us();
    const auto idle_us = active_us_ + static_cast<int64_t>(request_.idle_timeout_s * 1e6) - now_us;
    const auto total_us = begin_us + static_cast<int64_t>(request_.total_timeout_s * 1e6) - now_us;
    if (total_us <= 0)
      give_up(HttpTrouble::total_timeout,
              fmt::format("{} has not finished its reply within {}.", target_.text(),
                          format_duration(request_.total_timeout_s)));
    else if (idle_us <= 0)
      give_up(HttpTrouble::idle, fmt::format("{} has sent nothing for {}.", target_.text(),
                                             format_duration(request_.idle_timeout_s)));
    return std::max<int64_t>(0, std::min(idle_us, total_us));
  }

  void take_end(CURLcode code) {
    CurlEnd end{code, easy_.get(), error_text_, over_proxy_ || !request_.proxy.empty()};
    const HttpTrouble trouble = trouble_of(end);
    if (trouble != HttpTrouble::none) give_up(trouble, words_of(end, trouble, target_));
  }

  const HttpRequest& request_;
  const HttpSink& sink_;
  const HttpTarget& target_;
  char error_text_[CURL_ERROR_SIZE] = "";
  List headers_;
  Easy easy_;
  Multi multi_;  // goes first
  HttpReply reply_;
  int64_t header_bytes_ = 0, active_us_ = 0;
  curl_off_t progress_ = 0;
  bool over_proxy_ = false, cut_error_body_ = false;
};

}  // namespace

HttpReply http_request(const HttpRequest& request, const HttpSink& sink, std::stop_token stop) {
  HttpReply reply;
  HttpTarget target;
  reply.what = check_request(request, target);
  if (!reply.what.empty()) {
    reply.trouble = HttpTrouble::bad_url;
    return reply;
  }
  return Transfer(request, sink, target).run(stop);
}

}  // namespace marathon
