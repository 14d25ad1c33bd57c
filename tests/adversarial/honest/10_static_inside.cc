// expect: same|slower|faster
// a table that the compiler makes: constexpr, so that nothing is written at run time (a guarded
// static would be state that outlives a call, and is refused)
#include <array>

#include "prefix.h"

namespace {
constexpr std::array<int64_t, 64> make_order() {
  std::array<int64_t, 64> order{};
  for (int64_t i = 0; i < 64; ++i) order[i] = i * 37 % 64;
  return order;
}
}  // namespace

extern "C" int marathon_run(const MarathonArgs* args) {
  static constexpr std::array<int64_t, 64> order = make_order();
  const PrefixArgs p = prefix_args(args);
  for (int64_t first = 0; first < p.c; first += 64)
    for (const int64_t offset : order) {
      const int64_t i = first + offset;
      if (i >= p.c) continue;
      float state = p.start[i];
      for (int64_t t = 0; t < p.t; ++t)
        p.y[t * p.c + i] = state = p.a[t * p.c + i] * state + p.x[t * p.c + i];
      p.last[i] = state;
    }
  return 0;
}
