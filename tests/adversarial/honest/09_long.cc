// expect: same|slower|faster
// right and slow: does all of it two hundred times
#include "prefix.h"

extern "C" int marathon_run(const MarathonArgs* args) {
  const PrefixArgs p = prefix_args(args);
  for (int i = 0; i < 200; ++i) {
    prefix_plain(p);
    asm volatile("" ::: "memory");
  }
  return 0;
}
