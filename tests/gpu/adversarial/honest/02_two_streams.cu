// expect: same|slower|faster
// two streams, forked and joined by events
#include "prefix.cuh"

__global__ void prefix(Prefix p, int64_t from, int64_t to) {
  if (from + channel() < to) solve(p, from + channel());
}

extern "C" int marathon_run(const MarathonArgs* args) {
  static cudaStream_t side = nullptr;
  static cudaEvent_t fork = nullptr, join = nullptr;
  if (!side) {
    cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking);
    cudaEventCreateWithFlags(&fork, cudaEventDisableTiming);
    cudaEventCreateWithFlags(&join, cudaEventDisableTiming);
  }
  const Prefix p = prefix_of(args);
  const cudaStream_t stream = stream_of(args);
  cudaEventRecord(fork, stream);
  cudaStreamWaitEvent(side, fork, 0);
  prefix<<<blocks_of(p), prefix_threads, 0, stream>>>(p, 0, p.c / 2);
  prefix<<<blocks_of(p), prefix_threads, 0, side>>>(p, p.c / 2, p.c);
  cudaEventRecord(join, side);
  cudaStreamWaitEvent(stream, join, 0);
  return done();
}
