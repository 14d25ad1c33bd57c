// A block a row; 16 bytes a thread and step where rows allow it; a row is read once and kept.
#include <cuda_bf16.h>

#include "marathon_kernel.h"

namespace {

constexpr int threads = 256, kept = 4;  // 16-byte pieces of a row that one thread keeps

__device__ float block_sum(float sum) {
  __shared__ float partial[threads / 32];
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
  __syncthreads();
  float all = 0;
  for (int i = 0; i < threads / 32; ++i) all += partial[i];
  return all;
}

__global__ void __launch_bounds__(threads) norm_rows(const uint4* x, const float* w, uint4* out,
                                                     int64_t pieces) {
  uint4 held[kept];
  const uint4* row = x + blockIdx.x * pieces;
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kept; ++i) {
    const int64_t piece = threadIdx.x + i * threads;
    if (piece >= pieces) break;
    held[i] = row[piece];
    const __nv_bfloat162* pairs = reinterpret_cast<const __nv_bfloat162*>(&held[i]);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const float2 value = __bfloat1622float2(pairs[k]);
      sum += value.x * value.x + value.y * value.y;
    }
  }
  const float scale = rsqrtf(block_sum(sum) / static_cast<float>(pieces * 8) + 1e-6f);
#pragma unroll
  for (int i = 0; i < kept; ++i) {
    const int64_t piece = threadIdx.x + i * threads;
    if (piece >= pieces) break;
    __nv_bfloat162* pairs = reinterpret_cast<__nv_bfloat162*>(&held[i]);
    const float4* weights = reinterpret_cast<const float4*>(w + piece * 8);
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      const float4 weight = weights[k];
      float2 low = __bfloat1622float2(pairs[2 * k]), high = __bfloat1622float2(pairs[2 * k + 1]);
      pairs[2 * k] = __floats2bfloat162_rn(low.x * scale * weight.x, low.y * scale * weight.y);
      pairs[2 * k + 1] = __floats2bfloat162_rn(high.x * scale * weight.z, high.y * scale * weight.w);
    }
    out[blockIdx.x * pieces + piece] = held[i];
  }
}

}  // namespace

extern "C" int marathon_run(const MarathonArgs* args) {
  const int64_t rows = args->dims[0], columns = args->dims[1];
  if (columns % 8 != 0 || columns > threads * kept * 8) return 2;
  norm_rows<<<static_cast<unsigned>(rows), threads, 0, static_cast<cudaStream_t>(args->stream)>>>(
      static_cast<const uint4*>(args->tensors[0]), static_cast<const float*>(args->tensors[1]),
      static_cast<uint4*>(args->tensors[2]), columns / 8);
  return cudaGetLastError() == cudaSuccess ? 0 : 1;
}
