// expect: rule_broken
// keeps its inputs in persisting lines of L2
// reason: access policy window
// needs: gpu
#include "prefix.cuh"

__global__ void prefix(Prefix p) { solve(p, channel()); }

extern "C" int marathon_run(const MarathonArgs* args) {
  const Prefix p = prefix_of(args);
  cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, 1 << 20);
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeAccessPolicyWindow;
  cudaAccessPolicyWindow& window = attribute.val.accessPolicyWindow;
  window.base_ptr = const_cast<float*>(p.a);
  window.num_bytes = static_cast<size_t>(4 * p.t * p.c);
  window.hitRatio = 1;
  window.hitProp = cudaAccessPropertyPersisting;
  window.missProp = cudaAccessPropertyStreaming;
  cudaLaunchConfig_t config = {};
  config.gridDim = blocks_of(p);
  config.blockDim = prefix_threads;
  config.stream = stream_of(args);
  config.attrs = &attribute;
  config.numAttrs = 1;
  cudaLaunchKernelEx(&config, prefix, p);
  return done();
}
