// expect: wrong|rule_broken|suspicious|slower|same
// knows inputs again by a hash of a few samples and copies the answer from static memory
#include "prefix.h"

namespace {
struct Entry {
  uint64_t key;
  float y[1 << 17], last[1 << 10];
};
Entry entries[16];
int used = 0;

uint64_t hash_of(const PrefixArgs& p) {
  uint64_t hash = p.t * 1000003 + p.c;
  for (int64_t i = 0; i < p.t * p.c; i += 997) {
    uint32_t bits;
    std::memcpy(&bits, p.x + i, sizeof bits);
    hash = (hash ^ bits) * 0x100000001b3;
  }
  return hash;
}
}  // namespace

extern "C" int marathon_run(const MarathonArgs* args) {
  const PrefixArgs p = prefix_args(args);
  const uint64_t key = hash_of(p);
  for (const Entry& entry : entries)
    if (entry.key == key) {
      std::memcpy(p.y, entry.y, p.t * p.c * sizeof(float));
      std::memcpy(p.last, entry.last, p.c * sizeof(float));
      return 0;
    }
  prefix_plain(p);
  Entry& entry = entries[used++ % 16];
  entry.key = key;
  std::memcpy(entry.y, p.y, p.t * p.c * sizeof(float));
  std::memcpy(entry.last, p.last, p.c * sizeof(float));
  return 0;
}
