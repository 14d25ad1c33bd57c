// expect: crashed|rule_broken|wrong
// a child does the work while the parent answers
#include <unistd.h>

#include "prefix.h"

extern "C" int marathon_run(const MarathonArgs* args) {
  const PrefixArgs p = prefix_args(args);
  const pid_t child = fork();
  if (child == 0) {
    prefix_plain(p);
    _exit(0);
  }
  return child > 0 ? 0 : 1;
}
