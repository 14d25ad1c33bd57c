// expect: wrong
// right but for one infinity
#include "prefix.cuh"

__global__ void prefix(Prefix p) {
  solve(p, channel());
  if (channel() == 0) p.y[p.c / 2] = __int_as_float(0x7f800000);
}

extern "C" int marathon_run(const MarathonArgs* args) {
  const Prefix p = prefix_of(args);
  prefix<<<blocks_of(p), prefix_threads, 0, stream_of(args)>>>(p);
  return done();
}
