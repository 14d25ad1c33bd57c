// expect: wrong
// computes untimed, while it is captured, and copies the answer in the graph
#include "prefix.cuh"

extern "C" int64_t marathon_workspace_bytes(const int64_t* dims, int64_t) {
  return 4 * (dims[0] + 1) * dims[1];
}

__global__ void prefix(Prefix p) { solve(p, channel()); }

extern "C" int marathon_run(const MarathonArgs* args) {
  static cudaStream_t side = nullptr;
  if (!side) cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking);
  const Prefix p = prefix_of(args);
  Prefix early = p;
  early.y = p.workspace;
  early.last = p.workspace + p.t * p.c;
  prefix<<<blocks_of(p), prefix_threads, 0, side>>>(early);
  cudaMemcpyAsync(p.y, early.y, 4 * p.t * p.c, cudaMemcpyDeviceToDevice, stream_of(args));
  cudaMemcpyAsync(p.last, early.last, 4 * p.c, cudaMemcpyDeviceToDevice, stream_of(args));
  return done();
}
