// expect: crashed|wrong|suspicious|timed_out|rule_broken
// writes to every open descriptor what a finished call might look like, and computes later
#include <unistd.h>

#include "prefix.h"

extern "C" int marathon_run(const MarathonArgs* args) {
  const PrefixArgs p = prefix_args(args);
  const int64_t done[8] = {};
  for (int file = 3; file < 64; ++file)
    for (int i = 0; i < 4; ++i) (void)!write(file, done, sizeof done);
  for (volatile int64_t wait = 0; wait < 1000000; wait = wait + 1) {
  }
  prefix_plain(p);
  return 0;
}
