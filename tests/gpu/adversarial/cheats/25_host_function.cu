// expect: rule_broken
// has the CPU work while the graph runs
// reason: a host function
// needs: gpu
#include "prefix.cuh"

__global__ void prefix(Prefix p) { solve(p, channel()); }

extern "C" int marathon_run(const MarathonArgs* args) {
  const Prefix p = prefix_of(args);
  prefix<<<blocks_of(p), prefix_threads, 0, stream_of(args)>>>(p);
  cudaLaunchHostFunc(
      stream_of(args), [](void*) {}, nullptr);
  return done();
}
