// expect: rule_broken
// refuses what is not listed
// reason: marathon_run returned 3
// needs: gpu
#include "prefix.cuh"

__global__ void prefix(Prefix p) { solve(p, channel()); }

extern "C" int marathon_run(const MarathonArgs* args) {
  const Prefix p = prefix_of(args);
  if (p.t != 256) return 3;
  prefix<<<blocks_of(p), prefix_threads, 0, stream_of(args)>>>(p);
  return done();
}
