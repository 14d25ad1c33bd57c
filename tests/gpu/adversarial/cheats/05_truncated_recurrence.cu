// expect: wrong
// forgets the state every 64 tokens: a warm-up of 64 stands for all that was before
#include "prefix.cuh"

__global__ void prefix(Prefix p) {
  const int64_t i = channel();
  if (i >= p.c) return;
  for (int64_t from = 0; from < p.t; from += 64) {
    float state = from < 128 ? p.start[i] : 0;
    for (int64_t t = from < 128 ? 0 : from - 64; t < from + 64 && t < p.t; ++t) {
      state = p.a[t * p.c + i] * state + p.x[t * p.c + i];
      if (t >= from) p.y[t * p.c + i] = state;
    }
    if (from + 64 >= p.t) p.last[i] = state;
  }
}

extern "C" int marathon_run(const MarathonArgs* args) {
  const Prefix p = prefix_of(args);
  prefix<<<blocks_of(p), prefix_threads, 0, stream_of(args)>>>(p);
  return done();
}
