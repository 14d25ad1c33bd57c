// expect: same|slower|faster
// constant tables, one of pointers that need relocation, and a virtual call
#include "prefix.h"

namespace {
struct Step {
  virtual float operator()(float a, float state, float x) const = 0;
};
struct Forward final : Step {
  float operator()(float a, float state, float x) const override { return a * state + x; }
};
constexpr int64_t tiles[] = {64, 16, 4, 1};

template <int64_t tile>
int64_t sweep(const PrefixArgs& p, int64_t first, const Step& step) {
  for (; first + tile <= p.c; first += tile)
    for (int64_t i = first; i < first + tile; ++i) {
      float state = p.start[i];
      for (int64_t t = 0; t < p.t; ++t)
        p.y[t * p.c + i] = state = step(p.a[t * p.c + i], state, p.x[t * p.c + i]);
      p.last[i] = state;
    }
  return first;
}
using Sweep = int64_t (*)(const PrefixArgs&, int64_t, const Step&);
constexpr Sweep sweeps[] = {sweep<tiles[0]>, sweep<tiles[1]>, sweep<tiles[2]>, sweep<tiles[3]>};
}  // namespace

extern "C" int marathon_run(const MarathonArgs* args) {
  const PrefixArgs p = prefix_args(args);
  const Forward step;
  int64_t first = 0;
  for (const Sweep one : sweeps) first = one(p, first, step);
  return 0;
}
