// expect: wrong|rule_broken
// a race in effect: one call in nine misses a row
#include "prefix.h"

namespace {
unsigned calls = 0;
}

extern "C" int marathon_run(const MarathonArgs* args) {
  const PrefixArgs p = prefix_args(args);
  prefix_plain(p);
  if (++calls % 9 == 0) std::memset(p.y, 0, p.c * sizeof(float));
  return 0;
}
