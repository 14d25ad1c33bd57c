// The recurrence by its definition in `real`. As float it is the honest emulation.
#include <cuda_bf16.h>

#include "marathon_kernel.h"

namespace {

__global__ void steps(const __nv_bfloat16* x, const float* w, double* out, int64_t elements,
                      int64_t columns, int64_t count) {
  const int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x;
  if (i >= elements) return;
  const real keep = 0.99f, add = static_cast<real>(0.01f) * static_cast<real>(w[i % columns]);
  real value = static_cast<real>(__bfloat162float(x[i]));
  for (int64_t step = 0; step < count; ++step) value = value * keep + add;
  out[i] = value;
}

}  // namespace

extern "C" int marathon_oracle(const MarathonArgs* args, const MarathonSample*) {
  const int64_t elements = args->dims[0] * args->dims[1];
  steps<<<static_cast<unsigned>((elements + 127) / 128), 128, 0,
          static_cast<cudaStream_t>(args->stream)>>>(
      static_cast<const __nv_bfloat16*>(args->tensors[0]),
      static_cast<const float*>(args->tensors[1]), static_cast<double*>(args->tensors[2]), elements,
      args->dims[1], args->dims[2]);
  return cudaGetLastError() == cudaSuccess ? 0 : 1;
}
