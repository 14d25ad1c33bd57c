// y = A x by its definition. As float it is the honest emulation: one sum a row, left to right.
#include "marathon_kernel.h"

extern "C" int marathon_oracle(const MarathonArgs* args) {
  const int64_t m = args->dims[0], n = args->dims[1];
  const real* a = static_cast<const real*>(args->tensors[0]);
  const real* x = static_cast<const real*>(args->tensors[1]);
  real* y = static_cast<real*>(args->tensors[2]);
  for (int64_t i = 0; i < m; ++i) {
    real sum = 0;
    for (int64_t j = 0; j < n; ++j) sum += a[i * n + j] * x[j];
    y[i] = sum;
  }
  return 0;
}
