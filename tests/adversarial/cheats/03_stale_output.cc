// expect: wrong|rule_broken
// after some calls leaves the output as an earlier call left it
#include "prefix.h"

namespace {
int calls = 0;
}

extern "C" int marathon_run(const MarathonArgs* args) {
  if (++calls > 12) return 0;
  prefix_plain(prefix_args(args));
  return 0;
}
