// The arguments of the prefix recurrence by name, and the plain way to compute it.
#pragma once

#include <cstdint>
#include <cstring>

#include "marathon_kernel.h"

struct PrefixArgs {
  int64_t t, c;
  const float *a, *x;  // [T, C]
  const float* start;  // [C]
  float* y;            // [T, C]
  float* last;         // [C]
};

inline PrefixArgs prefix_args(const MarathonArgs* args) {
  void* const* p = args->tensors;
  return {args->dims[0],
          args->dims[1],
          static_cast<const float*>(p[0]),
          static_cast<const float*>(p[1]),
          static_cast<const float*>(p[2]),
          static_cast<float*>(p[3]),
          static_cast<float*>(p[4])};
}

inline void prefix_zeros(const PrefixArgs& p) {
  std::memset(p.y, 0, p.t * p.c * sizeof(float));
  std::memset(p.last, 0, p.c * sizeof(float));
}

inline void prefix_plain(const PrefixArgs& p) {
  const float* before = p.start;
  for (int64_t t = 0; t < p.t; ++t) {
    const float *a = p.a + t * p.c, *x = p.x + t * p.c;
    float* y = p.y + t * p.c;
    for (int64_t i = 0; i < p.c; ++i) y[i] = a[i] * before[i] + x[i];
    before = y;
  }
  std::memcpy(p.last, before, p.c * sizeof(float));
}
