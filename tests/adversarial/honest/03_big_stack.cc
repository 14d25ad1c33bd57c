// expect: same|slower|faster
// a megabyte on the stack
#include "prefix.h"

extern "C" int marathon_run(const MarathonArgs* args) {
  const PrefixArgs p = prefix_args(args);
  constexpr int64_t room = 1 << 18;
  float state[room];
  if (p.c > room) return 1;
  std::memcpy(state, p.start, p.c * sizeof(float));
  for (int64_t t = 0; t < p.t; ++t)
    for (int64_t i = 0; i < p.c; ++i)
      p.y[t * p.c + i] = state[i] = p.a[t * p.c + i] * state[i] + p.x[t * p.c + i];
  std::memcpy(p.last, state, p.c * sizeof(float));
  return 0;
}
