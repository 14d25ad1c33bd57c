// expect: suspicious|crashed
// makes the problem easy: sets every a to zero
#include "prefix.cuh"

__global__ void prefix(Prefix p) {
  const int64_t i = channel();
  solve(p, i);
  if (i < p.c) const_cast<float*>(p.a)[i] = 0;
}

extern "C" int marathon_run(const MarathonArgs* args) {
  const Prefix p = prefix_of(args);
  prefix<<<blocks_of(p), prefix_threads, 0, stream_of(args)>>>(p);
  return done();
}
