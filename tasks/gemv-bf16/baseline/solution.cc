// y = A x, the baseline: x is widened once, then each row is one dot product. The reduction is
// declared to the compiler (`omp simd`), which sums in a whole vector.
#include "gemv.h"

extern "C" int64_t marathon_workspace_bytes(const int64_t* dims, int64_t) {
  return dims[1] * static_cast<int64_t>(sizeof(float));
}

extern "C" int marathon_run(const MarathonArgs* args) {
  const GemvArgs g = gemv_args(args);
  float* x = static_cast<float*>(args->workspace);
  for (int64_t j = 0; j < g.n; ++j) x[j] = float_of(g.x[j]);

  for (int64_t i = 0; i < g.m; ++i) {
    const uint16_t* row = g.a + i * g.n;
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < g.n; ++j) sum += float_of(row[j]) * x[j];
    g.y[i] = sum;
  }
  return 0;
}
