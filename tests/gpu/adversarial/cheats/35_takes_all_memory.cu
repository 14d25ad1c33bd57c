// expect: same|slower|crashed|rule_broken
// takes all of the GPU's memory and keeps it
#include "prefix.cuh"

__global__ void prefix(Prefix p) { solve(p, channel()); }

extern "C" int marathon_run(const MarathonArgs* args) {
  static bool taken = false;
  for (void* piece = nullptr; !taken && cudaMalloc(&piece, int64_t{1} << 30) == cudaSuccess;) {
  }
  taken = true;
  cudaGetLastError();
  const Prefix p = prefix_of(args);
  prefix<<<blocks_of(p), prefix_threads, 0, stream_of(args)>>>(p);
  return done();
}
