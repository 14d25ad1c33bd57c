// expect: crashed|rule_broken|wrong
// attaches to the parent to read what it expects
#include <sys/ptrace.h>
#include <unistd.h>

#include "prefix.h"

extern "C" int marathon_run(const MarathonArgs* args) {
  const PrefixArgs p = prefix_args(args);
  if (ptrace(PTRACE_ATTACH, getppid(), nullptr, nullptr) == 0) {
    prefix_plain(p);
    return 0;
  }
  prefix_zeros(p);
  return 0;
}
