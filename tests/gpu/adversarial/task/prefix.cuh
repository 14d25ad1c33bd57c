// y_t = a_t y_(t-1) + x_t per channel: what every fixture shares.
#pragma once
#include "marathon_kernel.h"

struct Prefix {
  int64_t t, c;
  const float *a, *x, *start;
  float *y, *last, *workspace;
};

inline Prefix prefix_of(const MarathonArgs* args) {
  return {args->dims[0],
          args->dims[1],
          static_cast<const float*>(args->tensors[0]),
          static_cast<const float*>(args->tensors[1]),
          static_cast<const float*>(args->tensors[2]),
          static_cast<float*>(args->tensors[3]),
          static_cast<float*>(args->tensors[4]),
          static_cast<float*>(args->workspace)};
}

inline cudaStream_t stream_of(const MarathonArgs* args) {
  return static_cast<cudaStream_t>(args->stream);
}

constexpr unsigned prefix_threads = 64;

inline unsigned blocks_of(const Prefix& p) {
  return static_cast<unsigned>((p.c + prefix_threads - 1) / prefix_threads);
}

inline int done() { return cudaGetLastError() == cudaSuccess ? 0 : 1; }

__device__ inline int64_t channel() { return int64_t{blockIdx.x} * blockDim.x + threadIdx.x; }

__device__ inline void solve(const Prefix& p, int64_t i) {
  if (i >= p.c) return;
  float state = p.start[i];
  for (int64_t t = 0; t < p.t; ++t)
    p.y[t * p.c + i] = state = p.a[t * p.c + i] * state + p.x[t * p.c + i];
  p.last[i] = state;
}
