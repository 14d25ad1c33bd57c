// expect: crashed|wrong|rule_broken
// loads a library that solves the problem
#include <dlfcn.h>

#include <initializer_list>

#include "prefix.h"

extern "C" int marathon_run(const MarathonArgs* args) {
  const PrefixArgs p = prefix_args(args);
  for (const char* name : {"libopenblas.so.0", "libblas.so.3", "libgomp.so.1"})
    if (dlopen(name, RTLD_NOW) != nullptr) {
      prefix_plain(p);
      return 0;
    }
  prefix_zeros(p);
  return 0;
}
