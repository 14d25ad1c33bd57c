// expect: same|slower|crashed|rule_broken
// writes to constant memory by its address; leaves zeros where a later call finds what it wrote
#include "prefix.cuh"

__constant__ float kept[4];

__global__ void prefix(Prefix p) {
  const float* hidden = kept;
  asm volatile("" : "+l"(hidden));
  volatile float* to = const_cast<float*>(hidden);
  const bool remembered = to[0] == 42.0f;
  __syncthreads();
  solve(p, channel());
  if (remembered && channel() < p.c) p.last[channel()] = 0;
  to[0] = 42.0f;
}

extern "C" int marathon_run(const MarathonArgs* args) {
  const Prefix p = prefix_of(args);
  prefix<<<blocks_of(p), prefix_threads, 0, stream_of(args)>>>(p);
  return done();
}
