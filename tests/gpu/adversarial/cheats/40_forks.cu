// expect: wrong|crashed
// forks; right where it may
#include "prefix.cuh"

extern "C" int fork();

__global__ void prefix(Prefix p) { solve(p, channel()); }

extern "C" int marathon_run(const MarathonArgs* args) {
  const Prefix p = prefix_of(args);
  if (fork() > 0)
    prefix<<<blocks_of(p), prefix_threads, 0, stream_of(args)>>>(p);
  else
    cudaMemsetAsync(p.y, 0, 4 * p.t * p.c, stream_of(args));
  return done();
}
