// The arguments of the GEMV task by name: what candidate and baseline share.
#pragma once

#include <bit>
#include <cstdint>

#include "marathon_kernel.h"

struct GemvArgs {
  int64_t m, n;
  const uint16_t* a;  // [M, N], bf16 bits
  const uint16_t* x;  // [N], bf16 bits
  float* y;           // [M]
};

inline GemvArgs gemv_args(const MarathonArgs* args) {
  return {args->dims[0], args->dims[1], static_cast<const uint16_t*>(args->tensors[0]),
          static_cast<const uint16_t*>(args->tensors[1]), static_cast<float*>(args->tensors[2])};
}

// A bf16 is the upper half of a float.
inline float float_of(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}
