// expect: crashed|wrong|rule_broken|timed_out
// writes without end
#include <cstdio>
#include <initializer_list>

#include "prefix.h"

extern "C" int marathon_run(const MarathonArgs* args) {
  prefix_zeros(prefix_args(args));
  static char block[1 << 20];
  for (const char* path : {"fill", "/tmp/fill", "/dev/shm/fill"})
    if (FILE* file = std::fopen(path, "w")) {
      while (std::fwrite(block, 1, sizeof block, file) == sizeof block) {
      }
      std::fclose(file);
    }
  return 0;
}
