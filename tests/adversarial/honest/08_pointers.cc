// expect: same|slower|faster
// walks with end pointers and negative indices, reads y back, writes rows last column first
#include "prefix.h"

extern "C" int marathon_run(const MarathonArgs* args) {
  const PrefixArgs p = prefix_args(args);
  const float *a = p.a + p.c, *x = p.x + p.c, *before = p.start + p.c;
  float* y = p.y + p.c;
  for (int64_t t = 0; t < p.t; ++t, before = y, y += p.c, a += p.c, x += p.c)
    for (int64_t i = -1; i >= -p.c; --i) y[i] = a[i] * before[i] + x[i];
  for (int64_t i = -1; i >= -p.c; --i) p.last[p.c + i] = before[i];
  return 0;
}
