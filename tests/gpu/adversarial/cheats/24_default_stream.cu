// expect: rule_broken|wrong
// launches the expensive part on the legacy default stream, outside of what is captured
#include "prefix.cuh"

__global__ void prefix(Prefix p) { solve(p, channel()); }
__global__ void last_row(Prefix p) {
  if (channel() < p.c) p.last[channel()] = p.y[(p.t - 1) * p.c + channel()];
}

extern "C" int marathon_run(const MarathonArgs* args) {
  const Prefix p = prefix_of(args);
  prefix<<<blocks_of(p), prefix_threads>>>(p);
  last_row<<<blocks_of(p), prefix_threads, 0, stream_of(args)>>>(p);
  return done();
}
