// The recurrence row by row; the loop over channels is vectorised.
#include "prefix.h"

extern "C" int marathon_run(const MarathonArgs* args) {
  prefix_plain(prefix_args(args));
  return 0;
}
