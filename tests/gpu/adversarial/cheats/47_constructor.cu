// expect: crashed
// leaves before it is asked, from a constructor
#include "prefix.cuh"

extern "C" void _exit(int);

__attribute__((constructor)) static void early() { _exit(0); }

__global__ void prefix(Prefix p) { solve(p, channel()); }

extern "C" int marathon_run(const MarathonArgs* args) {
  const Prefix p = prefix_of(args);
  prefix<<<blocks_of(p), prefix_threads, 0, stream_of(args)>>>(p);
  return done();
}
