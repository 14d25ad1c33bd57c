// expect: rule_broken
// includes what a macro says
// reason: name the header itself
#include "prefix.cuh"

#define HEADER <dlfcn.h>
#include HEADER

__global__ void prefix(Prefix p) { solve(p, channel()); }

extern "C" int marathon_run(const MarathonArgs* args) {
  const Prefix p = prefix_of(args);
  prefix<<<blocks_of(p), prefix_threads, 0, stream_of(args)>>>(p);
  return done();
}
