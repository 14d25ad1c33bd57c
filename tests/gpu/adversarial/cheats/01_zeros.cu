// expect: wrong
// writes zeros
#include "prefix.cuh"

__global__ void prefix(Prefix p) {
  const int64_t i = channel();
  if (i >= p.c) return;
  for (int64_t t = 0; t < p.t; ++t) p.y[t * p.c + i] = 0;
  p.last[i] = 0;
}

extern "C" int marathon_run(const MarathonArgs* args) {
  const Prefix p = prefix_of(args);
  prefix<<<blocks_of(p), prefix_threads, 0, stream_of(args)>>>(p);
  return done();
}
