// Messages between the judge and its GPU processes: one JSON object a packet, with file descriptors.
#pragma once

#include <memory>
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

}  // namespace marathon
