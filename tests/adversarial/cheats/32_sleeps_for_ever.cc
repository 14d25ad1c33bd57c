// expect: timed_out|crashed
// sleeps: no processor time, so a limit on that alone never fires
#include <unistd.h>

#include "prefix.h"

extern "C" int marathon_run(const MarathonArgs* args) {
  (void)args;
  for (;;) pause();
}
