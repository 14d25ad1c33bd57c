// expect: same|slower|faster
// the plain loops
#include "prefix.h"

extern "C" int marathon_run(const MarathonArgs* args) {
  prefix_plain(prefix_args(args));
  return 0;
}
