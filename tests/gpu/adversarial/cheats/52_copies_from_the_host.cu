// expect: rule_broken
// copies an answer of the CPU
// reason: copies from or to the host
// needs: gpu
#include "prefix.cuh"

__global__ void prefix(Prefix p) { solve(p, channel()); }

extern "C" int marathon_run(const MarathonArgs* args) {
  static float first[1] = {1};
  const Prefix p = prefix_of(args);
  prefix<<<blocks_of(p), prefix_threads, 0, stream_of(args)>>>(p);
  cudaMemcpyAsync(p.y, first, sizeof first, cudaMemcpyHostToDevice, stream_of(args));
  return done();
}
