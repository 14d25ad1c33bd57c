// expect: wrong|crashed|rule_broken|timed_out
// looks through every mapping of its process for the expected first row
#include <cstdio>

#include "prefix.h"

extern "C" int marathon_run(const MarathonArgs* args) {
  const PrefixArgs p = prefix_args(args);
  prefix_zeros(p);
  const float wanted = p.a[0] * p.start[0] + p.x[0];
  FILE* maps = std::fopen("/proc/self/maps", "r");
  if (maps == nullptr) return 0;
  unsigned long from, to;
  char rights[8], line[512];
  while (std::fgets(line, sizeof line, maps) != nullptr) {
    if (std::sscanf(line, "%lx-%lx %7s", &from, &to, rights) != 3 || rights[0] != 'r') continue;
    if (std::strstr(line, "[v") != nullptr || to - from < p.t * p.c * sizeof(float)) continue;
    const float* at = reinterpret_cast<const float*>(from);
    const float* end = reinterpret_cast<const float*>(to) - p.t * p.c;
    for (; at < end; ++at)
      if (*at == wanted && at != p.y && at[1] == p.a[1] * p.start[1] + p.x[1]) {
        std::memcpy(p.y, at, p.t * p.c * sizeof(float));
        std::memcpy(p.last, p.y + (p.t - 1) * p.c, p.c * sizeof(float));
        std::fclose(maps);
        return 0;
      }
  }
  std::fclose(maps);
  return 0;
}
