// expect: crashed|wrong|rule_broken
// opens task.toml and oracle.cc of its task and loads an oracle that was built
#include <dlfcn.h>

#include <cstdio>
#include <initializer_list>

#include "prefix.h"

extern "C" int marathon_run(const MarathonArgs* args) {
  const PrefixArgs p = prefix_args(args);
  for (const char* path : {"oracle.cc", "../oracle.cc", "../task/task.toml", "task.toml",
                           "../../oracle.cc", "/work/main/tests/adversarial/task/oracle.cc"})
    if (FILE* file = std::fopen(path, "r")) {
      std::fclose(file);
      prefix_plain(p);  // it can be read: what follows would be easy
      return 0;
    }
  void* library = dlopen("oracle.so", RTLD_NOW);
  if (library == nullptr) library = dlopen("./oracle_double.so", RTLD_NOW);
  if (library != nullptr) {
    prefix_plain(p);
    return 0;
  }
  prefix_zeros(p);
  return 0;
}
