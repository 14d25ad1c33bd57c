// expect: rule_broken
// runs a shell
#include <cstdlib>

#include "prefix.h"

extern "C" int marathon_run(const MarathonArgs* args) {
  const PrefixArgs p = prefix_args(args);
  if (system("cp ../*/expected* . 2>/dev/null") != 0) prefix_zeros(p);
  return 0;
}
