// expect: wrong
// adds to a workspace that it takes to be zero
#include "prefix.h"

extern "C" int64_t marathon_workspace_bytes(const int64_t* dims, int64_t) {
  return dims[1] * static_cast<int64_t>(sizeof(float));
}

extern "C" int marathon_run(const MarathonArgs* args) {
  const PrefixArgs p = prefix_args(args);
  float* state = static_cast<float*>(args->workspace);
  for (int64_t i = 0; i < p.c; ++i) state[i] += p.start[i];
  for (int64_t t = 0; t < p.t; ++t)
    for (int64_t i = 0; i < p.c; ++i)
      p.y[t * p.c + i] = state[i] = p.a[t * p.c + i] * state[i] + p.x[t * p.c + i];
  std::memcpy(p.last, state, p.c * sizeof(float));
  return 0;
}
