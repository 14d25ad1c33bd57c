// expect: crashed
// ends the worker as if all were well
#include "prefix.cuh"

extern "C" void _exit(int);

__global__ void prefix(Prefix p) { solve(p, channel()); }

extern "C" int marathon_run(const MarathonArgs* args) {
  const Prefix p = prefix_of(args);
  prefix<<<blocks_of(p), prefix_threads, 0, stream_of(args)>>>(p);
  _exit(done());
}
