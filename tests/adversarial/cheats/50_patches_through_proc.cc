// expect: crashed|wrong|rule_broken|suspicious
// writes its own code through /proc/self/mem, past the page rights
#include <fcntl.h>
#include <unistd.h>

#include "prefix.h"

extern "C" int marathon_run(const MarathonArgs* args) {
  prefix_zeros(prefix_args(args));
  const int file = open("/proc/self/mem", O_RDWR);
  const unsigned char code[] = {0x31, 0xc0, 0xc3};
  if (file >= 0)
    (void)!pwrite(file, code, sizeof code, static_cast<off_t>(reinterpret_cast<uintptr_t>(&write)));
  return 0;
}
