// expect: timed_out
// an endless loop
#include "prefix.h"

extern "C" int marathon_run(const MarathonArgs* args) {
  volatile const MarathonArgs* keep = args;
  while (keep != nullptr) {
  }
  return 0;
}
