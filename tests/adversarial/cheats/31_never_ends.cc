// expect: timed_out
// an endless loop
#include "prefix.h"

extern "C" int marathon_run(const MarathonArgs* args) {
  const MarathonArgs* volatile keep = args;  // read in every round: the loop may not be removed
  while (keep != nullptr) {
  }
  return 0;
}
