// expect: wrong
// writes behind its workspace
// reason: behind its workspace
#include "prefix.cuh"

extern "C" int64_t marathon_workspace_bytes(const int64_t*, int64_t) { return 4096; }

__global__ void prefix(Prefix p) {
  solve(p, channel());
  if (channel() == 0) p.workspace[1024] = 1;
}

extern "C" int marathon_run(const MarathonArgs* args) {
  const Prefix p = prefix_of(args);
  prefix<<<blocks_of(p), prefix_threads, 0, stream_of(args)>>>(p);
  return done();
}
