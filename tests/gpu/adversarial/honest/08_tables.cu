// expect: same|slower|faster
// a table in constant memory, a template, local arrays
#include "prefix.cuh"

__constant__ float signs[2] = {1.0f, -1.0f};

template <int count>
__device__ float twice_turned(float value) {
  for (int i = 0; i < count; ++i) value *= signs[1];
  return value * signs[0];
}

__global__ void prefix(Prefix p) {
  solve(p, channel());
  if (channel() < p.c) p.last[channel()] = twice_turned<2>(p.last[channel()]);
}

extern "C" int marathon_run(const MarathonArgs* args) {
  const Prefix p = prefix_of(args);
  prefix<<<blocks_of(p), prefix_threads, 0, stream_of(args)>>>(p);
  return done();
}
