// An element a thread.
#include <cuda_bf16.h>

#include "marathon_kernel.h"

namespace {

__global__ void steps(const __nv_bfloat16* x, const float* w, __nv_bfloat16* out, int64_t elements,
                      int64_t columns, int64_t count) {
  const int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x;
  if (i >= elements) return;
  const float add = 0.01f * w[i % columns];
  float value = __bfloat162float(x[i]);
  for (int64_t step = 0; step < count; ++step) value = fmaf(value, 0.99f, add);
  out[i] = __float2bfloat16(value);
}

}  // namespace

extern "C" int marathon_run(const MarathonArgs* args) {
  const int64_t elements = args->dims[0] * args->dims[1];
  steps<<<static_cast<unsigned>((elements + 127) / 128), 128, 0,
          static_cast<cudaStream_t>(args->stream)>>>(
      static_cast<const __nv_bfloat16*>(args->tensors[0]),
      static_cast<const float*>(args->tensors[1]), static_cast<__nv_bfloat16*>(args->tensors[2]),
      elements, args->dims[1], args->dims[2]);
  return cudaGetLastError() == cudaSuccess ? 0 : 1;
}
