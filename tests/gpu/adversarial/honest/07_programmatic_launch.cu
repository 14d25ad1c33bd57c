// expect: same|slower|faster
// a kernel that starts before the one before it ends
#include "prefix.cuh"

extern "C" int64_t marathon_workspace_bytes(const int64_t* dims, int64_t) { return 4 * dims[1]; }

__global__ void first(Prefix p) {
  if (channel() < p.c) p.workspace[channel()] = p.start[channel()];
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

__global__ void prefix(Prefix p) {
  asm volatile("griddepcontrol.wait;" ::: "memory");
  Prefix from = p;
  from.start = p.workspace;
  solve(from, channel());
}

extern "C" int marathon_run(const MarathonArgs* args) {
  const Prefix p = prefix_of(args);
  first<<<blocks_of(p), prefix_threads, 0, stream_of(args)>>>(p);
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = blocks_of(p);
  config.blockDim = prefix_threads;
  config.stream = stream_of(args);
  config.attrs = &attribute;
  config.numAttrs = 1;
  cudaLaunchKernelEx(&config, prefix, p);
  return done();
}
