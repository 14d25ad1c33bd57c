// expect: same|slower|faster
// transposes into the workspace and back, setting every byte that it reads
#include "prefix.h"

extern "C" int64_t marathon_workspace_bytes(const int64_t* dims, int64_t) {
  return 2 * dims[0] * dims[1] * static_cast<int64_t>(sizeof(float));
}

extern "C" int marathon_run(const MarathonArgs* args) {
  const PrefixArgs p = prefix_args(args);
  float* a = static_cast<float*>(args->workspace);
  float* x = a + p.t * p.c;
  for (int64_t t = 0; t < p.t; ++t)
    for (int64_t i = 0; i < p.c; ++i)
      a[i * p.t + t] = p.a[t * p.c + i], x[i * p.t + t] = p.x[t * p.c + i];
  for (int64_t i = 0; i < p.c; ++i) {
    float state = p.start[i];
    for (int64_t t = 0; t < p.t; ++t)
      x[i * p.t + t] = state = a[i * p.t + t] * state + x[i * p.t + t];
    p.last[i] = state;
  }
  for (int64_t t = 0; t < p.t; ++t)
    for (int64_t i = 0; i < p.c; ++i) p.y[t * p.c + i] = x[i * p.t + t];
  return 0;
}
