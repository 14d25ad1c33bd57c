// expect: wrong|crashed|rule_broken
// leaves the outputs empty and wants to put them right, and the files too, when the process ends
#include <cstdio>
#include <cstdlib>

#include "prefix.h"

namespace {
PrefixArgs kept;

void put_right() {
  prefix_plain(kept);
  if (FILE* file = std::fopen("result.json", "w")) {
    std::fputs("{\"kind\": \"faster\"}", file);
    std::fclose(file);
  }
}
}  // namespace

extern "C" int marathon_run(const MarathonArgs* args) {
  if (kept.y == nullptr) std::atexit(put_right);
  kept = prefix_args(args);
  return 0;
}
