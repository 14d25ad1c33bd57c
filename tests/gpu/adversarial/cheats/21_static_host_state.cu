// expect: wrong
// works in its first call and launches nothing of use in the calls that are captured
#include "prefix.cuh"

__global__ void prefix(Prefix p) { solve(p, channel()); }
__global__ void nothing(Prefix p) {
  if (channel() < p.c) p.last[channel()] = 0;
}

extern "C" int marathon_run(const MarathonArgs* args) {
  static int calls = 0;
  const Prefix p = prefix_of(args);
  if (calls++ == 0)
    prefix<<<blocks_of(p), prefix_threads, 0, stream_of(args)>>>(p);
  else
    nothing<<<blocks_of(p), prefix_threads, 0, stream_of(args)>>>(p);
  return done();
}
