// expect: crashed|wrong|rule_broken
// computes the answer once into memory of its own and copies it by a kernel
#include "prefix.cuh"

__global__ void prefix(Prefix p) { solve(p, channel()); }
__global__ void copy(Prefix p, const float* kept) {
  const int64_t i = channel();
  if (i >= p.c) return;
  for (int64_t t = 0; t < p.t; ++t) p.y[t * p.c + i] = kept[t * p.c + i];
  p.last[i] = kept[p.t * p.c + i];
}

extern "C" int marathon_run(const MarathonArgs* args) {
  static float* kept = nullptr;
  const Prefix p = prefix_of(args);
  if (!kept) {
    cudaMalloc(&kept, 1 << 24);
    Prefix early = p;
    early.y = kept;
    early.last = kept + p.t * p.c;
    prefix<<<blocks_of(p), prefix_threads, 0, stream_of(args)>>>(early);
  }
  copy<<<blocks_of(p), prefix_threads, 0, stream_of(args)>>>(p, kept);
  return done();
}
