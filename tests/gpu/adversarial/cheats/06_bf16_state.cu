// expect: wrong
// keeps the state in bf16
#include <cuda_bf16.h>

#include "prefix.cuh"

__global__ void prefix(Prefix p) {
  const int64_t i = channel();
  if (i >= p.c) return;
  __nv_bfloat16 state = __float2bfloat16(p.start[i]);
  for (int64_t t = 0; t < p.t; ++t) {
    state = __float2bfloat16(p.a[t * p.c + i] * __bfloat162float(state) + p.x[t * p.c + i]);
    p.y[t * p.c + i] = __bfloat162float(state);
  }
  p.last[i] = __bfloat162float(state);
}

extern "C" int marathon_run(const MarathonArgs* args) {
  const Prefix p = prefix_of(args);
  prefix<<<blocks_of(p), prefix_threads, 0, stream_of(args)>>>(p);
  return done();
}
