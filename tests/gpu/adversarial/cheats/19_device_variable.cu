// expect: rule_broken
// counts its calls in a __device__ variable
// reason: in global memory
#include "prefix.cuh"

__device__ int calls;

__global__ void prefix(Prefix p) {
  if (calls < 3) solve(p, channel());
  if (channel() == 0) ++calls;
}

extern "C" int marathon_run(const MarathonArgs* args) {
  const Prefix p = prefix_of(args);
  prefix<<<blocks_of(p), prefix_threads, 0, stream_of(args)>>>(p);
  return done();
}
