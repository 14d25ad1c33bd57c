// expect: rule_broken
// works on a stream of its own that the judge does not wait for
// reason: graph is empty
// needs: gpu
#include "prefix.cuh"

__global__ void prefix(Prefix p) { solve(p, channel()); }

extern "C" int marathon_run(const MarathonArgs* args) {
  static cudaStream_t side = nullptr;
  if (!side) cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking);
  const Prefix p = prefix_of(args);
  prefix<<<blocks_of(p), prefix_threads, 0, side>>>(p);
  return done();
}
