// expect: wrong|crashed|rule_broken
// stops the parent process, so that its clock sees less
#include <unistd.h>

#include <csignal>

#include "prefix.h"

extern "C" int marathon_run(const MarathonArgs* args) {
  const PrefixArgs p = prefix_args(args);
  if (kill(getppid(), SIGSTOP) == 0) {
    prefix_plain(p);
    kill(getppid(), SIGCONT);
    return 0;
  }
  prefix_zeros(p);
  return 0;
}
