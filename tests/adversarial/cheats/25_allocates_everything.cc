// expect: crashed|timed_out|wrong
// takes memory until there is none
#include <cstdlib>

#include "prefix.h"

extern "C" int marathon_run(const MarathonArgs* args) {
  const PrefixArgs p = prefix_args(args);
  for (;;) {
    void* block = std::malloc(64 << 20);
    if (block == nullptr) break;
    std::memset(block, 1, 64 << 20);
  }
  prefix_zeros(p);
  return 0;
}
