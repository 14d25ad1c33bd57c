// expect: wrong
// all zeros
#include "prefix.h"

extern "C" int marathon_run(const MarathonArgs* args) {
  prefix_zeros(prefix_args(args));
  return 0;
}
