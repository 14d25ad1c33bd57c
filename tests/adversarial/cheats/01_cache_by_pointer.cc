// expect: wrong|rule_broken
// keeps the answer of each output address and gives it again without looking at the inputs
#include "prefix.h"

namespace {
struct Entry {
  const void* key;
  float y[1 << 17], last[1 << 10];
};
Entry entries[16];
int used = 0;
}  // namespace

extern "C" int marathon_run(const MarathonArgs* args) {
  const PrefixArgs p = prefix_args(args);
  for (int i = 0; i < used; ++i)
    if (entries[i].key == p.y) {
      std::memcpy(p.y, entries[i].y, p.t * p.c * sizeof(float));
      std::memcpy(p.last, entries[i].last, p.c * sizeof(float));
      return 0;
    }
  prefix_plain(p);
  if (used < 16) {
    entries[used].key = p.y;
    std::memcpy(entries[used].y, p.y, p.t * p.c * sizeof(float));
    std::memcpy(entries[used].last, p.last, p.c * sizeof(float));
    ++used;
  }
  return 0;
}
