#include "bench/cuda/channel.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>

#include "base/clock.h"

namespace marathon {

namespace {

constexpr int max_message_bytes = 1 << 20;
constexpr size_t max_descriptors = 16;
constexpr int socket_type = SOCK_SEQPACKET | SOCK_CLOEXEC;

Channel channel_of(int socket) {
  const int bytes = 2 * max_message_bytes;
  // A smaller buffer than asked for (net.core.wmem_max) makes send() say so, with the message.
  (void)::setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
  return Channel(Fd(socket));
}

Result<sockaddr_un> address_of(const std::filesystem::path& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  const std::string text = path.string();
  if (text.size() >= sizeof address.sun_path)
    return fail(Fault::invalid, "the name of a socket is too long (" + text +
                                    "): set TMPDIR to a folder with a shorter name");
  std::memcpy(address.sun_path, text.c_str(), text.size());
  return address;
}

}  // namespace

Result<Channel::Pair> Channel::pair() {
  int ends[2];
  if (::socketpair(AF_UNIX, socket_type, 0, ends) != 0) return fail_errno("socketpair", errno);
  return Pair{channel_of(ends[0]), channel_of(ends[1])};
}

Result<Channel> Channel::connect(const std::filesystem::path& path) {
  const sockaddr_un address = TRY(address_of(path));
  Fd fd(::socket(AF_UNIX, socket_type, 0));
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return fail_errno("connect to " + path.string(), errno);
  return channel_of(fd.release());
}

Result<Door> Door::open(const std::filesystem::path& path) {
  const sockaddr_un address = TRY(address_of(path));
  Fd fd(::socket(AF_UNIX, socket_type, 0));
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(fd.get(), 1) != 0)
    return fail_errno("make the socket " + path.string(), errno);
  return Door(std::move(fd));
}

Result<std::optional<Channel>> Door::wait(double limit_s) const {
  pollfd ready = {fd_.get(), POLLIN, 0};
  if (::poll(&ready, 1, static_cast<int>(1000 * limit_s)) <= 0) return std::optional<Channel>();
  const int socket = ::accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC);
  if (socket < 0) return fail_errno("accept", errno);
  return std::optional(channel_of(socket));
}

Status Channel::send(const Json& body, const std::vector<int>& descriptors) const {
  std::string text = dump_json(body);
  if (descriptors.size() > max_descriptors) return fail(Fault::invalid, "too many descriptors");
  iovec part = {text.data(), text.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(max_descriptors * sizeof(int))] = {};
  msghdr header = {};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (!descriptors.empty()) {
    const size_t bytes = descriptors.size() * sizeof(int);
    header.msg_control = control;
    header.msg_controllen = CMSG_SPACE(bytes);
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(bytes);
    std::memcpy(CMSG_DATA(rights), descriptors.data(), bytes);
  }
  while (::sendmsg(fd_.get(), &header, MSG_NOSIGNAL) < 0) {
    if (errno == EINTR) continue;
    if (errno == EPIPE || errno == ECONNRESET)
      return fail(Fault::not_found, "the other process is gone");
    return fail_errno("send a message of " + std::to_string(text.size()) + " bytes", errno);
  }
  return {};
}

Result<Message> Channel::receive(double limit_s) const {
  const int64_t until_us = monotonic_us() + static_cast<int64_t>(limit_s * 1e6);
  for (;;) {
    const int64_t left_us = until_us - monotonic_us();
    if (left_us <= 0) return fail(Fault::timeout, "no answer came in time");
    pollfd ready = {fd_.get(), POLLIN, 0};
    const int count = ::poll(&ready, 1, static_cast<int>(left_us / 1000 + 1));
    if (count < 0 && errno != EINTR) return fail_errno("poll", errno);
    if (count > 0) break;
  }
  std::string text(max_message_bytes, '\0');
  iovec part = {text.data(), text.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(max_descriptors * sizeof(int))] = {};
  msghdr header = {};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  const ssize_t got = ::recvmsg(fd_.get(), &header, MSG_CMSG_CLOEXEC);
  if (got == 0 || (got < 0 && errno == ECONNRESET))
    return fail(Fault::not_found, "the other process is gone");
  if (got < 0) return fail_errno("receive a message", errno);
  Message message;
  for (cmsghdr* rights = CMSG_FIRSTHDR(&header); rights; rights = CMSG_NXTHDR(&header, rights)) {
    if (rights->cmsg_level != SOL_SOCKET || rights->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (rights->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(rights) + i * sizeof(int), sizeof fd);
      message.descriptors.emplace_back(fd);
    }
  }
  if (header.msg_flags & (MSG_TRUNC | MSG_CTRUNC))
    return fail(Fault::invalid, "a message is longer than allowed");
  text.resize(static_cast<size_t>(got));
  message.body = std::make_shared<Json>(TRY(parse_json(text)));
  if (!message.body->is_object()) return fail(Fault::invalid, "a message is no JSON object");
  return message;
}

}  // namespace marathon
