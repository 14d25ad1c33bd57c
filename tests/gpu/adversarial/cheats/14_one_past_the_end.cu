// expect: wrong
// writes just behind an output
// reason: behind output
#include "prefix.cuh"

__global__ void prefix(Prefix p) {
  solve(p, channel());
  if (channel() == 0) p.y[p.t * p.c] = 1;
}

extern "C" int marathon_run(const MarathonArgs* args) {
  const Prefix p = prefix_of(args);
  prefix<<<blocks_of(p), prefix_threads, 0, stream_of(args)>>>(p);
  return done();
}
