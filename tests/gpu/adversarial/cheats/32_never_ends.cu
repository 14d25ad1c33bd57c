// expect: timed_out
// never ends
// reason: took longer
#include "prefix.cuh"

__global__ void prefix(Prefix p) {
  solve(p, channel());
  volatile float* y = p.y;
  while (y[0] == y[0]) {
  }
}

extern "C" int marathon_run(const MarathonArgs* args) {
  const Prefix p = prefix_of(args);
  prefix<<<blocks_of(p), prefix_threads, 0, stream_of(args)>>>(p);
  return done();
}
