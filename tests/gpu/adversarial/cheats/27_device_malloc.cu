// expect: rule_broken
// takes memory inside of a kernel
// reason: calls malloc
#include "prefix.cuh"

__global__ void prefix(Prefix p) {
  float* mine = static_cast<float*>(malloc(64));
  if (mine) mine[0] = p.start[0];
  solve(p, channel());
  if (mine && mine[0] == 12345.0f) p.y[0] = 0;
}

extern "C" int marathon_run(const MarathonArgs* args) {
  const Prefix p = prefix_of(args);
  prefix<<<blocks_of(p), prefix_threads, 0, stream_of(args)>>>(p);
  return done();
}
