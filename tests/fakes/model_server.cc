#include "fakes/model_server.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cctype>
#include <condition_variable>
#include <csignal>
#include <deque>
#include <fstream>
#include <functional>
#include <list>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>

#include "fakes/model_play.h"
#include "fakes/self_signed.h"

namespace marathon {

namespace {

using fake::End;
using fake::Play;
using fake::Step;

// A socket of loopback, bound to a port of the kernel's choice.
Fd bound_socket(int& port) {
  Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* any = reinterpret_cast<sockaddr*>(&address);
  if (!fd || ::bind(fd.get(), any, size) != 0 || ::getsockname(fd.get(), any, &size) != 0)
    throw std::runtime_error("the fake server has no port on loopback");
  port = ntohs(address.sin_port);
  return fd;
}

class Connection {
 public:
  Connection(int socket, fake::TlsContext* tls) : socket_(socket) {
    if (tls != nullptr) tls_ = tls->session(socket);
  }

  bool open() { return !tls_ || tls_->accept(); }

  // False when the other side ended it first.
  bool read_request(SeenRequest& request) {
    std::string text;
    size_t head = 0;
    while ((head = text.find("\r\n\r\n")) == std::string::npos)
      if (!read_more(text)) return false;
    parse_head(text.substr(0, head), request);
    const std::string length = request.header("content-length");
    const size_t wanted = head + 4 + (length.empty() ? 0 : std::stoul(length));
    while (text.size() < wanted)
      if (!read_more(text)) return false;
    request.body = text.substr(head + 4);
    return true;
  }

  void play(const Play& play) {
    for (const Step& step : play.steps) {
      for (int64_t i = 0; i < step.times; ++i) {
        if (step.pause_ms > 0 && peer_left_within(step.pause_ms)) return;
        if (!write(step.bytes)) return;
      }
    }
    if (play.end == End::stall) peer_left_within(-1);
    if (play.end == End::reset) {
      const linger hard{1, 0};
      ::setsockopt(socket_, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    } else if (tls_) {
      tls_->close();
    }
  }

 private:
  bool read_more(std::string& text) {
    char buffer[1 << 16];
    const int64_t got =
        tls_ ? tls_->read(buffer, sizeof buffer) : ::recv(socket_, buffer, sizeof buffer, 0);
    if (got > 0) text.append(buffer, static_cast<size_t>(got));
    return got > 0;
  }

  bool write(std::string_view bytes) {
    while (!bytes.empty()) {
      const int64_t sent = tls_ ? tls_->write(bytes.data(), bytes.size())
                                : ::send(socket_, bytes.data(), bytes.size(), 0);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }

  bool peer_left_within(int ms) const {
    pollfd ready{socket_, POLLRDHUP, 0};
    return ::poll(&ready, 1, ms) != 0;
  }

  static void parse_head(const std::string& head, SeenRequest& request) {
    size_t at = head.find("\r\n");
    const std::string first = head.substr(0, at);
    const size_t space = first.find(' ');
    request.method = first.substr(0, space);
    request.path = first.substr(space + 1, first.rfind(' ') - space - 1);
    while (at != std::string::npos) {
      const size_t next = head.find("\r\n", at + 2);
      const std::string line = head.substr(at + 2, next - at - 2);
      const size_t colon = line.find(':');
      std::string name = line.substr(0, colon);
      std::transform(name.begin(), name.end(), name.begin(),
                     [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
      const size_t value = line.find_first_not_of(' ', colon + 1);
      request.headers.emplace_back(name, value == std::string::npos ? "" : line.substr(value));
      at = next;
    }
  }

  int socket_;
  std::unique_ptr<fake::TlsSession> tls_;
};

}  // namespace

std::string SeenRequest::header(std::string_view lower_name) const {
  for (const auto& [name, value] : headers)
    if (name == lower_name) return value;
  return "";
}

struct ModelServer::Impl {
  explicit Impl(bool with_tls) {
    listener = bound_socket(port);
    if (::listen(listener.get(), 64) != 0)
      throw std::runtime_error("the fake server cannot listen");
    if (with_tls) {
      tls = fake::make_self_signed();
      if (!write_file(folder.path() / "ca.pem", tls->certificate_pem()))
        throw std::runtime_error("the fake server cannot write its certificate");
    }
    acceptor = std::thread([this] { accept_all(); });
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  ~Impl() {
    {
      const std::lock_guard lock(mutex);
      closing = true;
      ::shutdown(listener.get(), SHUT_RDWR);
      for (const int socket : open) ::shutdown(socket, SHUT_RDWR);
    }
    acceptor.join();
    for (std::thread& thread : threads) thread.join();
  }

  void accept_all() {
    sigset_t pipe;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe, nullptr);  // also of the threads that begin here
    while (true) {
      const int socket = ::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC);
      if (socket < 0) return;
      const std::lock_guard lock(mutex);
      if (closing) {
        ::close(socket);
        return;
      }
      open.insert(socket);
      changed.notify_all();
      threads.emplace_back([this, socket] { serve(socket); });
    }
  }

  void serve(int socket) {
    {
      Connection connection(socket, tls.get());
      SeenRequest request;
      if (connection.open() && connection.read_request(request))
        connection.play(next_play(std::move(request)));
    }
    const std::lock_guard lock(mutex);
    ::close(socket);
    open.erase(socket);
    changed.notify_all();
  }

  Play next_play(SeenRequest request) {
    const std::lock_guard lock(mutex);
    const bool anthropic = request.path.find("/messages") != std::string::npos;
    requests.push_back(std::move(request));
    changed.notify_all();
    if (script.empty()) return fake::play_of("good", anthropic);
    if (front_was_used && script.size() > 1) script.pop_front();
    front_was_used = true;
    return script.front()(anthropic);
  }

  void push(std::function<Play(bool anthropic)> make) {
    const std::lock_guard lock(mutex);
    script.push_back(std::move(make));
  }

  TempFolder folder = std::move(*TempFolder::make("fake-model"));
  Fd listener;
  int port = 0;
  std::unique_ptr<fake::TlsContext> tls;
  std::thread acceptor;

  mutable std::mutex mutex;
  mutable std::condition_variable changed;
  bool closing = false, front_was_used = false;
  std::set<int> open;
  std::list<std::thread> threads;
  std::deque<std::function<Play(bool anthropic)>> script;
  std::vector<SeenRequest> requests;
};

ModelServer::ModelServer(Transport transport)
    : impl_(std::make_unique<Impl>(transport == Transport::tls)) {}
ModelServer::~ModelServer() = default;

ModelServer& ModelServer::behave(std::string_view behaviour) {
  const std::string name(behaviour);
  (void)fake::play_of(name, false);  // throws
  impl_->push([name](bool anthropic) { return fake::play_of(name, anthropic); });
  return *this;
}

ModelServer& ModelServer::answer(ScriptedAnswer answer) {
  const std::lock_guard lock(impl_->mutex);
  impl_->script.emplace_back(
      [answer = std::move(answer)](bool anthropic) { return fake::play_of(answer, anthropic); });
  return *this;
}

int ModelServer::port() const { return impl_->port; }
std::string ModelServer::url() const {
  return fmt::format("{}://127.0.0.1:{}", impl_->tls ? "https" : "http", impl_->port);
}
std::string ModelServer::openai_url() const { return url() + "/v1"; }
std::string ModelServer::ca_file() const { return (impl_->folder.path() / "ca.pem").string(); }

std::vector<SeenRequest> ModelServer::requests() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->requests;
}

void ModelServer::wait_for_requests(size_t count) const {
  std::unique_lock lock(impl_->mutex);
  impl_->changed.wait(lock, [&] { return impl_->requests.size() >= count; });
}

void ModelServer::wait_for_connection() const {
  std::unique_lock lock(impl_->mutex);
  impl_->changed.wait(lock, [&] { return !impl_->open.empty(); });
}

namespace {

// Sockets of this network that wait for an answer from the port of loopback.
int64_t connecting_to(int port) {
  std::ifstream table("/proc/self/net/tcp");
  const std::string remote = fmt::format(" 0100007F:{:04X} 02 ", port);  // 02: SYN_SENT
  int64_t count = 0;
  for (std::string line; std::getline(table, line);)
    if (line.find(remote) != std::string::npos) ++count;
  return count;
}

}  // namespace

ClosedPort::ClosedPort() : socket_(bound_socket(port_)) {}

DeafPort::DeafPort() : listener_(bound_socket(port_)) {
  if (::listen(listener_.get(), 0) != 0) throw std::runtime_error("cannot listen");
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port_));
  for (int i = 0; i < 8; ++i) {
    waiting_.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    (void)::connect(waiting_.back().get(), reinterpret_cast<const sockaddr*>(&address),
                    sizeof address);
  }
  callers_ = connecting_to(port_);
}

void DeafPort::wait_for_caller() const {
  while (connecting_to(port_) <= callers_) std::this_thread::yield();
}

}  // namespace marathon
