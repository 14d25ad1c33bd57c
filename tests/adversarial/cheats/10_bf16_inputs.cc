// expect: wrong
// reads a and x as if they were bf16
#include <bit>

#include "prefix.h"

namespace {
float rounded(float x) {
  return std::bit_cast<float>((std::bit_cast<uint32_t>(x) + 0x8000u) & 0xffff0000u);
}
}  // namespace

extern "C" int marathon_run(const MarathonArgs* args) {
  const PrefixArgs p = prefix_args(args);
  for (int64_t i = 0; i < p.c; ++i) {
    float state = p.start[i];
    for (int64_t t = 0; t < p.t; ++t)
      p.y[t * p.c + i] = state = rounded(p.a[t * p.c + i]) * state + rounded(p.x[t * p.c + i]);
    p.last[i] = state;
  }
  return 0;
}
