// expect: same|slower|faster
// zeroes the outputs first, then adds to them: many writes, all inside
#include "prefix.h"

extern "C" int marathon_run(const MarathonArgs* args) {
  const PrefixArgs p = prefix_args(args);
  prefix_zeros(p);
  for (int64_t i = 0; i < p.c; ++i) p.last[i] += p.start[i];
  for (int64_t t = 0; t < p.t; ++t)
    for (int64_t i = 0; i < p.c; ++i) {
      p.last[i] = p.a[t * p.c + i] * p.last[i] + p.x[t * p.c + i];
      p.y[t * p.c + i] += p.last[i];
    }
  return 0;
}
