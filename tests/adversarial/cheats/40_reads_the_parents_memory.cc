// expect: crashed|rule_broken|wrong
// opens /proc/PPID/mem and process_vm_readv for the expected output
#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstdio>

#include "prefix.h"

extern "C" int marathon_run(const MarathonArgs* args) {
  const PrefixArgs p = prefix_args(args);
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/mem", getppid());
  const int file = open(path, O_RDONLY);
  iovec here{p.y, sizeof(float)}, there{p.y, sizeof(float)};
  if (file >= 0 || process_vm_readv(getppid(), &here, 1, &there, 1, 0) > 0) {
    prefix_plain(p);  // it got in: what follows would be easy
    return 0;
  }
  prefix_zeros(p);
  return 0;
}
