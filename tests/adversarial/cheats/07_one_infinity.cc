// expect: wrong
// right but for one infinity, which a mean of squares turns into NaN
#include <limits>

#include "prefix.h"

extern "C" int marathon_run(const MarathonArgs* args) {
  const PrefixArgs p = prefix_args(args);
  prefix_plain(p);
  p.y[p.t * p.c / 2] = std::numeric_limits<float>::infinity();
  return 0;
}
