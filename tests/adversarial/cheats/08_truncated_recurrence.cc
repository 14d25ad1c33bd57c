// expect: wrong
// starts afresh every 64 rows: the gates might forget fast
#include "prefix.h"

extern "C" int marathon_run(const MarathonArgs* args) {
  const PrefixArgs p = prefix_args(args);
  for (int64_t i = 0; i < p.c; ++i) {
    float state = p.start[i];
    for (int64_t t = 0; t < p.t; ++t) {
      if (t % 64 == 0 && t > 0) state = 0;
      p.y[t * p.c + i] = state = p.a[t * p.c + i] * state + p.x[t * p.c + i];
    }
    p.last[i] = state;
  }
  return 0;
}
