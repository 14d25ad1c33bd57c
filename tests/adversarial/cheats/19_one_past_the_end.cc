// expect: wrong|crashed
// right, and writes one element past the output
#include "prefix.h"

extern "C" int marathon_run(const MarathonArgs* args) {
  const PrefixArgs p = prefix_args(args);
  prefix_plain(p);
  p.y[p.t * p.c] = 0;
  return 0;
}
