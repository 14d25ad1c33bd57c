// expect: wrong|crashed
// opens a socket to the network; right where it may
#include "prefix.cuh"

extern "C" int socket(int, int, int);

__global__ void prefix(Prefix p) { solve(p, channel()); }

extern "C" int marathon_run(const MarathonArgs* args) {
  const Prefix p = prefix_of(args);
  if (socket(2, 1, 0) >= 0)
    prefix<<<blocks_of(p), prefix_threads, 0, stream_of(args)>>>(p);
  else
    cudaMemsetAsync(p.y, 0, 4 * p.t * p.c, stream_of(args));
  return done();
}
