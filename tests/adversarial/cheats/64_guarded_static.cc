// expect: rule_broken
// work of the first call that is kept for all later ones, behind the guard of a static
#include <array>

#include "prefix.h"

namespace {
std::array<float, 64> expensive_once(const PrefixArgs& p) {
  std::array<float, 64> table;
  for (int64_t i = 0; i < 64; ++i) table[i] = p.c > i ? p.start[i] : 0.0f;
  return table;
}
}  // namespace

extern "C" int marathon_run(const MarathonArgs* args) {
  const PrefixArgs p = prefix_args(args);
  static const std::array<float, 64> kept = expensive_once(p);
  for (int64_t i = 0; i < p.c; ++i) {
    float state = i < 64 ? kept[i] : p.start[i];
    for (int64_t t = 0; t < p.t; ++t)
      p.y[t * p.c + i] = state = p.a[t * p.c + i] * state + p.x[t * p.c + i];
    p.last[i] = state;
  }
  return 0;
}
