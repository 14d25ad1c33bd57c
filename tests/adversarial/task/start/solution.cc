// The recurrence in tiles of TILE channels, whose state stays in registers.
#include "prefix.h"

extern "C" int marathon_run(const MarathonArgs* args) {
  const PrefixArgs p = prefix_args(args);
  int64_t first = 0;
  for (; first + TILE <= p.c; first += TILE) {
    float state[TILE];
    std::memcpy(state, p.start + first, sizeof state);
    for (int64_t t = 0; t < p.t; ++t)
      for (int64_t i = 0; i < TILE; ++i) {
        const int64_t at = t * p.c + first + i;
        p.y[at] = state[i] = p.a[at] * state[i] + p.x[at];
      }
    std::memcpy(p.last + first, state, sizeof state);
  }
  for (; first < p.c; ++first) {
    float state = p.start[first];
    for (int64_t t = 0; t < p.t; ++t) {
      const int64_t at = t * p.c + first;
      p.y[at] = state = p.a[at] * state + p.x[at];
    }
    p.last[first] = state;
  }
  return 0;
}
