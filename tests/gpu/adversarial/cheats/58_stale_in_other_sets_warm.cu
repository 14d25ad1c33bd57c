// expect: same|slower|rule_broken
// keeps the answer of one buffer set in the workspaces of the others, judged warm
// cache: warm
#include "prefix.cuh"

extern "C" int64_t marathon_workspace_bytes(const int64_t* dims, int64_t) {
  return 4 * 8 * (dims[0] + 2) * dims[1];
}

namespace {

constexpr int slots = 8;

struct Others {
  float* workspace[slots];
  int count, own;
};

__global__ void prefix(Prefix p, Others others) {
  const int64_t i = channel();
  if (i >= p.c) return;
  const int64_t slot = others.own * (p.t + 2) * p.c;
  const float tag = p.x[i] + p.x[(p.t - 1) * p.c + i];
  for (int k = 0; k < others.count; ++k) {
    const float* kept = others.workspace[k] + slot;
    if (k == others.own || kept[(p.t + 1) * p.c + i] != tag) continue;
#pragma unroll 8
    for (int64_t t = 0; t < p.t; ++t) p.y[t * p.c + i] = kept[t * p.c + i];
    p.last[i] = kept[p.t * p.c + i];
    return;
  }
  solve(p, i);
  for (int k = 0; k < others.count; ++k) {
    float* kept = others.workspace[k] + slot;
    if (k == others.own) continue;
    for (int64_t t = 0; t < p.t; ++t) kept[t * p.c + i] = p.y[t * p.c + i];
    kept[p.t * p.c + i] = p.last[i];
    kept[(p.t + 1) * p.c + i] = tag;
  }
}

}  // namespace

extern "C" int marathon_run(const MarathonArgs* args) {
  static Others seen = {};
  static int64_t tokens = 0;
  const Prefix p = prefix_of(args);
  if (tokens != p.t) seen = {};
  tokens = p.t;
  int own = 0;
  while (own < seen.count && seen.workspace[own] != p.workspace) ++own;
  if (own == seen.count && own < slots) seen.workspace[seen.count++] = p.workspace;
  seen.own = own;
  prefix<<<blocks_of(p), prefix_threads, 0, stream_of(args)>>>(p, seen);
  return done();
}
