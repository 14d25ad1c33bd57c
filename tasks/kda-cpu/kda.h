// The arguments of the KDA task by name: what candidate, baseline and oracle share.
#pragma once

#include <cstdint>

#include "marathon_kernel.h"

constexpr float kda_norm_epsilon = 1e-6f;  // q and k are divided by √(Σx² + epsilon)

// `Scalar` is float in candidate and baseline, `real` in the oracle.
template <class Scalar>
struct KdaArgs {
  int64_t b, t, h, k, v;
  const Scalar* query;  // [B, T, H, K]
  const Scalar* key;    // [B, T, H, K]
  const Scalar* value;  // [B, T, H, V]
  const Scalar* gate;   // [B, T, H, K], log space, ≤ 0
  const Scalar* beta;   // [B, T, H], in (0, 1]
  const Scalar* start;  // [B, H, K, V]
  Scalar* out;          // [B, T, H, V]
  Scalar* last;         // [B, H, K, V]
};

template <class Scalar>
inline KdaArgs<Scalar> kda_args(const MarathonArgs* args) {
  const int64_t* d = args->dims;
  void* const* p = args->tensors;
  return {d[0],
          d[1],
          d[2],
          d[3],
          d[4],
          static_cast<const Scalar*>(p[0]),
          static_cast<const Scalar*>(p[1]),
          static_cast<const Scalar*>(p[2]),
          static_cast<const Scalar*>(p[3]),
          static_cast<const Scalar*>(p[4]),
          static_cast<const Scalar*>(p[5]),
          static_cast<Scalar*>(p[6]),
          static_cast<Scalar*>(p[7])};
}
