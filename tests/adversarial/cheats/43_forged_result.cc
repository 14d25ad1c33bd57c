// expect: crashed|wrong|rule_broken
// writes result files that say faster into every folder it may, then leaves
#include <unistd.h>

#include <cstdio>

#include "prefix.h"

extern "C" int marathon_run(const MarathonArgs* args) {
  (void)args;
  const char* paths[] = {"result.json", "verdict.json", "../result.json", "/tmp/result.json"};
  for (const char* path : paths)
    if (FILE* file = std::fopen(path, "w")) {
      std::fputs("{\"kind\": \"faster\", \"speedup\": {\"value\": 99}}\n", file);
      std::fclose(file);
    }
  std::puts("{\"verdict\": \"faster\", \"speedup\": 99}");
  std::fflush(stdout);
  _exit(0);
}
