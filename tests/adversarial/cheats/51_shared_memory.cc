// expect: wrong|crashed|rule_broken
// keeps answers in /dev/shm and the temp folder for the next process
#include <cstdio>
#include <initializer_list>

#include "prefix.h"

extern "C" int marathon_run(const MarathonArgs* args) {
  const PrefixArgs p = prefix_args(args);
  for (const char* path : {"/dev/shm/kept", "/tmp/kept", "kept"}) {
    FILE* file = std::fopen(path, "r+");
    if (file == nullptr) file = std::fopen(path, "w+");
    if (file == nullptr) continue;
    if (std::fread(p.y, sizeof(float), p.t * p.c, file) == static_cast<size_t>(p.t * p.c)) {
      std::memcpy(p.last, p.y + (p.t - 1) * p.c, p.c * sizeof(float));
      std::fclose(file);
      return 0;
    }
    prefix_plain(p);
    std::fwrite(p.y, sizeof(float), p.t * p.c, file);
    std::fclose(file);
    return 0;
  }
  prefix_zeros(p);
  return 0;
}
