// expect: same|slower|faster
// calls the mathematical library where it is not needed
#include <cmath>

#include "prefix.h"

extern "C" int marathon_run(const MarathonArgs* args) {
  const PrefixArgs p = prefix_args(args);
  for (int64_t i = 0; i < p.c; ++i) {
    double state = p.start[i];
    for (int64_t t = 0; t < p.t; ++t) {
      int exponent = 0;
      const double part = std::frexp(static_cast<double>(p.a[t * p.c + i]), &exponent);
      state = std::fma(std::ldexp(part, exponent), state, static_cast<double>(p.x[t * p.c + i]));
      p.y[t * p.c + i] = static_cast<float>(state + std::fabs(std::sin(0.0)));
    }
    p.last[i] = static_cast<float>(state);
  }
  return 0;
}
