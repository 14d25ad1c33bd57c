// expect: suspicious|wrong|crashed
// computes in place in x, to save a store, and spoils what others are checked with
#include "prefix.h"

extern "C" int marathon_run(const MarathonArgs* args) {
  const PrefixArgs p = prefix_args(args);
  float* x = const_cast<float*>(p.x);
  const float* before = p.start;
  for (int64_t t = 0; t < p.t; ++t) {
    for (int64_t i = 0; i < p.c; ++i) x[t * p.c + i] += p.a[t * p.c + i] * before[i];
    before = x + t * p.c;
  }
  std::memcpy(p.y, x, p.t * p.c * sizeof(float));
  std::memcpy(p.last, before, p.c * sizeof(float));
  return 0;
}
