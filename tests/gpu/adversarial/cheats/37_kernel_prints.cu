// expect: same|slower|timed_out
// prints without end from a kernel
#include <cstdio>

#include "prefix.cuh"

__global__ void prefix(Prefix p) {
  solve(p, channel());
  for (int i = 0; i < 1000; ++i) printf("channel %d, line %d of very many\n", int(channel()), i);
}

extern "C" int marathon_run(const MarathonArgs* args) {
  const Prefix p = prefix_of(args);
  prefix<<<blocks_of(p), prefix_threads, 0, stream_of(args)>>>(p);
  return done();
}
