// expect: rule_broken
// takes memory in the graph
// reason: an allocation
// needs: gpu
#include "prefix.cuh"

__global__ void prefix(Prefix p) { solve(p, channel()); }

extern "C" int marathon_run(const MarathonArgs* args) {
  const Prefix p = prefix_of(args);
  void* mine = nullptr;
  cudaMallocAsync(&mine, 1 << 20, stream_of(args));
  prefix<<<blocks_of(p), prefix_threads, 0, stream_of(args)>>>(p);
  cudaFreeAsync(mine, stream_of(args));
  return done();
}
