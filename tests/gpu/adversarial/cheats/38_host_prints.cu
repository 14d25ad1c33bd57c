// expect: same|slower|timed_out
// prints 1 GB from the CPU
#include <cstdio>
#include <cstring>

#include "prefix.cuh"

__global__ void prefix(Prefix p) { solve(p, channel()); }

extern "C" int marathon_run(const MarathonArgs* args) {
  static char line[1 << 20];
  std::memset(line, 'x', sizeof line);
  static int times = 0;
  for (; times < 1024; ++times) std::fwrite(line, 1, sizeof line, stdout);
  const Prefix p = prefix_of(args);
  prefix<<<blocks_of(p), prefix_threads, 0, stream_of(args)>>>(p);
  return done();
}
