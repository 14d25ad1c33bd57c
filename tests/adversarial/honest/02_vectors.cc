// expect: same|slower|faster
// vector extensions over unaligned memory
#include "prefix.h"

namespace {
typedef float Vec __attribute__((vector_size(32), aligned(4), may_alias));
}

extern "C" int marathon_run(const MarathonArgs* args) {
  const PrefixArgs p = prefix_args(args);
  int64_t i = 0;
  for (; i + 8 <= p.c; i += 8) {
    Vec state = *reinterpret_cast<const Vec*>(p.start + i);
    for (int64_t t = 0; t < p.t; ++t) {
      const Vec a = *reinterpret_cast<const Vec*>(p.a + t * p.c + i);
      state = a * state + *reinterpret_cast<const Vec*>(p.x + t * p.c + i);
      *reinterpret_cast<Vec*>(p.y + t * p.c + i) = state;
    }
    *reinterpret_cast<Vec*>(p.last + i) = state;
  }
  for (; i < p.c; ++i) {
    float state = p.start[i];
    for (int64_t t = 0; t < p.t; ++t)
      p.y[t * p.c + i] = state = p.a[t * p.c + i] * state + p.x[t * p.c + i];
    p.last[i] = state;
  }
  return 0;
}
