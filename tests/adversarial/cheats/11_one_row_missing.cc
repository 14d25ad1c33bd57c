// expect: wrong
// one row in the middle is zero, the state goes on right
#include "prefix.h"

extern "C" int marathon_run(const MarathonArgs* args) {
  const PrefixArgs p = prefix_args(args);
  prefix_plain(p);
  std::memset(p.y + p.t / 2 * p.c, 0, p.c * sizeof(float));
  return 0;
}
