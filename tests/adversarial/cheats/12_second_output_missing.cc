// expect: wrong
// writes y and leaves the last state alone
#include "prefix.h"

extern "C" int marathon_run(const MarathonArgs* args) {
  PrefixArgs p = prefix_args(args);
  const float* before = p.start;
  for (int64_t t = 0; t < p.t; ++t) {
    for (int64_t i = 0; i < p.c; ++i)
      p.y[t * p.c + i] = p.a[t * p.c + i] * before[i] + p.x[t * p.c + i];
    before = p.y + t * p.c;
  }
  return 0;
}
