// expect: crashed|rule_broken|wrong|timed_out
// forks without end
#include <unistd.h>

#include "prefix.h"

extern "C" int marathon_run(const MarathonArgs* args) {
  for (int i = 0; i < 1 << 20; ++i) (void)!fork();
  prefix_zeros(prefix_args(args));
  return 0;
}
