// expect: rule_broken
// keeps the answer in managed memory
// reason: in global memory
#include "prefix.cuh"

__managed__ float kept[4096];

__global__ void prefix(Prefix p) {
  solve(p, channel());
  if (channel() < p.c && channel() < 4096) kept[channel()] = p.last[channel()];
}

extern "C" int marathon_run(const MarathonArgs* args) {
  const Prefix p = prefix_of(args);
  prefix<<<blocks_of(p), prefix_threads, 0, stream_of(args)>>>(p);
  return done();
}
