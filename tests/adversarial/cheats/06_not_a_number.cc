// expect: wrong
// fills the outputs with NaN: every comparison with it is false
#include <limits>

#include "prefix.h"

extern "C" int marathon_run(const MarathonArgs* args) {
  const PrefixArgs p = prefix_args(args);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (int64_t i = 0; i < p.t * p.c; ++i) p.y[i] = nan;
  for (int64_t i = 0; i < p.c; ++i) p.last[i] = nan;
  return 0;
}
