// expect: crashed|rule_broken|wrong
// a grandchild in a session of its own goes on loading the machine
#include <unistd.h>

#include "prefix.h"

extern "C" int marathon_run(const MarathonArgs* args) {
  const PrefixArgs p = prefix_args(args);
  if (fork() == 0) {
    setsid();
    if (fork() != 0) _exit(0);
    for (;;) {
    }
  }
  prefix_zeros(p);
  return 0;
}
