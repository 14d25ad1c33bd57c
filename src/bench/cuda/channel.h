// Messages between the judge and its GPU processes: one JSON object a packet, with file descriptors.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "base/result.h"

namespace marathon {

inline constexpr int gpu_channel_fd = 3;  // in the child

struct Message {
  std::shared_ptr<Json> body;  // never null, always an object
  std::vector<Fd> descriptors;
};

class Channel {
 public:
  // A SOCK_SEQPACKET pair: keeps packets apart and says when the other end is gone.
  struct Pair;
  static Result<Pair> pair();
  // To a Door of another process.
  static Result<Channel> connect(const std::filesystem::path& path);
  explicit Channel(Fd fd) : fd_(std::move(fd)) {}

  int fd() const { return fd_.get(); }
  Status send(const Json& body, const std::vector<int>& descriptors = {}) const;
  // Waits at most `limit_s`. Error timeout; not_found when the other end is gone; invalid when what
  // came is no JSON object.
  Result<Message> receive(double limit_s) const;

 private:
  Fd fd_;
};

struct Channel::Pair {
  Channel ours, theirs;
};

// A socket with a name, for a child that another program starts: that one may pass no descriptors on.
class Door {
 public:
  static Result<Door> open(const std::filesystem::path& path);
  // Null when nobody came.
  Result<std::optional<Channel>> wait(double limit_s) const;

 private:
  explicit Door(Fd fd) : fd_(std::move(fd)) {}
  Fd fd_;
};

}  // namespace marathon
