// expect: timed_out
// an endless loop
#include "prefix.h"

extern "C" int marathon_run(const MarathonArgs* args) {
  // A volatile read in the loop: one without side effects may be removed by the compiler.
  volatile int64_t keep = args->abi;
  while (keep != 0) {
  }
  return 0;
}
