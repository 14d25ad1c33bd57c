// expect: wrong|crashed|rule_broken
// edits the task, the baseline and its own source
#include <cstdio>
#include <cstdlib>
#include <initializer_list>

#include "prefix.h"

extern "C" int marathon_run(const MarathonArgs* args) {
  const PrefixArgs p = prefix_args(args);
  bool wrote = false;
  for (const char* path : {"task.toml", "../task.toml", "baseline/solution.cc", "solution.cc",
                           "../baseline/solution.cc", "/etc/hosts"})
    if (FILE* file = std::fopen(path, "r+")) {
      std::fclose(file);
      wrote = true;
    }
  if (wrote) prefix_plain(p);
  if (!wrote) prefix_zeros(p);
  return 0;
}
