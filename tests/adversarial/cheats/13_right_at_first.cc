// expect: wrong|rule_broken
// right while it is checked for the first time, truncated when it is timed
#include "prefix.h"

namespace {
int calls = 0;
}

extern "C" int marathon_run(const MarathonArgs* args) {
  PrefixArgs p = prefix_args(args);
  prefix_plain(p);
  if (++calls > 20) {
    const int64_t half = p.t / 2 * p.c;
    std::memset(p.y + half, 0, (p.t * p.c - half) * sizeof(float));
  }
  return 0;
}
