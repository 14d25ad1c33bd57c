// expect: rule_broken
// forks a stream, works there and never joins it
// reason: not joined
// needs: gpu
#include "prefix.cuh"

__global__ void prefix(Prefix p) { solve(p, channel()); }

extern "C" int marathon_run(const MarathonArgs* args) {
  static cudaStream_t side = nullptr;
  static cudaEvent_t fork = nullptr;
  if (!side) {
    cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking);
    cudaEventCreateWithFlags(&fork, cudaEventDisableTiming);
  }
  const Prefix p = prefix_of(args);
  cudaEventRecord(fork, stream_of(args));
  cudaStreamWaitEvent(side, fork, 0);
  prefix<<<blocks_of(p), prefix_threads, 0, side>>>(p);
  return done();
}
