// expect: same|slower|faster
// memset and copies between tensors and workspace
#include "prefix.cuh"

extern "C" int64_t marathon_workspace_bytes(const int64_t* dims, int64_t) { return 4 * dims[1]; }

__global__ void prefix(Prefix p) {
  const int64_t i = channel();
  if (i >= p.c) return;
  p.workspace[i] += p.start[i];
  Prefix from = p;
  from.start = p.workspace;
  solve(from, i);
  p.workspace[i] = p.last[i];
}

extern "C" int marathon_run(const MarathonArgs* args) {
  const Prefix p = prefix_of(args);
  const cudaStream_t stream = stream_of(args);
  cudaMemsetAsync(p.workspace, 0, 4 * p.c, stream);
  prefix<<<blocks_of(p), prefix_threads, 0, stream>>>(p);
  cudaMemcpyAsync(p.last, p.workspace, 4 * p.c, cudaMemcpyDeviceToDevice, stream);
  return done();
}
