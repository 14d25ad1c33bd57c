// expect: crashed
// returns a number that is not zero: nothing can be wrong then
#include "prefix.h"

extern "C" int marathon_run(const MarathonArgs* args) {
  (void)args;
  return 7;
}
