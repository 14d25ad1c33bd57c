// expect: rule_broken
// wants a workspace of 200 GB
// reason: 32 GiB
// needs: gpu
#include "prefix.cuh"

extern "C" int64_t marathon_workspace_bytes(const int64_t*, int64_t) { return 200'000'000'000; }

__global__ void prefix(Prefix p) { solve(p, channel()); }

extern "C" int marathon_run(const MarathonArgs* args) {
  const Prefix p = prefix_of(args);
  prefix<<<blocks_of(p), prefix_threads, 0, stream_of(args)>>>(p);
  return done();
}
