// expect: wrong|crashed
// right, and writes one element before the last state
#include "prefix.h"

extern "C" int marathon_run(const MarathonArgs* args) {
  const PrefixArgs p = prefix_args(args);
  prefix_plain(p);
  p.last[-1] = 0;
  return 0;
}
