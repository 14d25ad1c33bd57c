// expect: rule_broken|suspicious
// defines clock_gettime so that no time passes
#include <time.h>

#include "prefix.h"

extern "C" int clock_gettime(clockid_t, struct timespec* now) noexcept {
  now->tv_sec = 1, now->tv_nsec = 1;
  return 0;
}

extern "C" int marathon_run(const MarathonArgs* args) {
  prefix_plain(prefix_args(args));
  return 0;
}
