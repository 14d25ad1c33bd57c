// expect: wrong|slower|same
// keeps the answer in the workspace behind a magic number and looks for it in the next call
#include "prefix.h"

namespace {
constexpr uint64_t magic = 0x6d61726174686f6e;
struct Kept {
  uint64_t magic, t, c;
  float values[1];
};
}  // namespace

extern "C" int64_t marathon_workspace_bytes(const int64_t* dims, int64_t) {
  return 64 + (dims[0] + 1) * dims[1] * static_cast<int64_t>(sizeof(float));
}

extern "C" int marathon_run(const MarathonArgs* args) {
  const PrefixArgs p = prefix_args(args);
  Kept* kept = static_cast<Kept*>(args->workspace);
  const uint64_t t = p.t, c = p.c;
  if (kept->magic == magic && kept->t == t && kept->c == c) {
    std::memcpy(p.y, kept->values, p.t * p.c * sizeof(float));
    std::memcpy(p.last, kept->values + p.t * p.c, p.c * sizeof(float));
    return 0;
  }
  prefix_plain(p);
  kept->magic = magic, kept->t = t, kept->c = c;
  std::memcpy(kept->values, p.y, p.t * p.c * sizeof(float));
  std::memcpy(kept->values + p.t * p.c, p.last, p.c * sizeof(float));
  return 0;
}
