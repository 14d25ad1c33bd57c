// expect: build_failed|rule_broken
// launches from the device
#include "prefix.cuh"

__global__ void work(Prefix p) { solve(p, channel()); }
__global__ void prefix(Prefix p) {
  if (channel() == 0) work<<<(p.c + 63) / 64, 64>>>(p);
}

extern "C" int marathon_run(const MarathonArgs* args) {
  const Prefix p = prefix_of(args);
  prefix<<<blocks_of(p), prefix_threads, 0, stream_of(args)>>>(p);
  return done();
}
