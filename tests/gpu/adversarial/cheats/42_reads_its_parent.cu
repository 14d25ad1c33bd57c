// expect: wrong|crashed
// reads the memory of its judge; right where it may
#include <cstdio>

#include "prefix.cuh"

extern "C" int getppid();

static bool opens() {
  char name[64];
  std::snprintf(name, sizeof name, "/proc/%d/mem", getppid());
  return std::fopen(name, "r") != nullptr;
}

__global__ void prefix(Prefix p) { solve(p, channel()); }

extern "C" int marathon_run(const MarathonArgs* args) {
  const Prefix p = prefix_of(args);
  if (opens())
    prefix<<<blocks_of(p), prefix_threads, 0, stream_of(args)>>>(p);
  else
    cudaMemsetAsync(p.y, 0, 4 * p.t * p.c, stream_of(args));
  return done();
}
