// expect: wrong
// believes that its workspace is full of zeros
#include "prefix.cuh"

extern "C" int64_t marathon_workspace_bytes(const int64_t* dims, int64_t) { return 4 * dims[1]; }

__global__ void prefix(Prefix p) {
  const int64_t i = channel();
  if (i >= p.c) return;
  float state = p.start[i] + p.workspace[i];
  for (int64_t t = 0; t < p.t; ++t)
    p.y[t * p.c + i] = state = p.a[t * p.c + i] * state + p.x[t * p.c + i];
  p.last[i] = state;
}

extern "C" int marathon_run(const MarathonArgs* args) {
  const Prefix p = prefix_of(args);
  prefix<<<blocks_of(p), prefix_threads, 0, stream_of(args)>>>(p);
  return done();
}
