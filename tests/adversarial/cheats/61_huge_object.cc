// expect: build_failed|rule_broken|crashed
// an object file of gigabytes
#include "prefix.h"

char data[4ull << 30] = {1};

extern "C" int marathon_run(const MarathonArgs* args) {
  prefix_plain(prefix_args(args));
  return data[0] - 1;
}
