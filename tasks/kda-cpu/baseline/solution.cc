// KDA forward, the baseline: the recurrence in two passes over the state a token.
//
// Every inner loop runs along V, contiguous and free of aliases, and g++ -O3 -march=native
// vectorises it at the machine's full width (-fopt-info-vec). The decay is fused with the read by
// k, the update with the read by q. The state is updated where the final state must stand, so
// nothing is copied but the initial one.
#include <cmath>
#include <cstring>

#include "kda.h"

namespace {

constexpr int64_t max_dim = 256;

void normalise(const float* __restrict x, int64_t n, float scale, float* __restrict result) {
  float sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += x[i] * x[i];
  const float factor = scale / std::sqrt(sum + kda_norm_epsilon);
  for (int64_t i = 0; i < n; ++i) result[i] = x[i] * factor;
}

// S = diag(exp(g)) S and r = Sᵀ k in one pass.
void decay_and_read(float* __restrict s, const float* __restrict gate, const float* __restrict k,
                    int64_t dim_k, int64_t dim_v, float* __restrict result) {
  for (int64_t j = 0; j < dim_v; ++j) result[j] = 0;
  for (int64_t i = 0; i < dim_k; ++i) {
    const float decay = std::exp(gate[i]);
    for (int64_t j = 0; j < dim_v; ++j) {
      s[i * dim_v + j] *= decay;
      result[j] += k[i] * s[i * dim_v + j];
    }
  }
}

// S = S + k uᵀ and o = Sᵀ q in one pass.
void update_and_read(float* __restrict s, const float* __restrict k, const float* __restrict u,
                     const float* __restrict q, int64_t dim_k, int64_t dim_v,
                     float* __restrict result) {
  for (int64_t j = 0; j < dim_v; ++j) result[j] = 0;
  for (int64_t i = 0; i < dim_k; ++i) {
    for (int64_t j = 0; j < dim_v; ++j) {
      s[i * dim_v + j] += k[i] * u[j];
      result[j] += q[i] * s[i * dim_v + j];
    }
  }
}

void run_head(const KdaArgs<float>& a, int64_t b, int64_t h) {
  const float scale = 1 / std::sqrt(static_cast<float>(a.k));
  alignas(64) float q[max_dim], k[max_dim], u[max_dim];
  const int64_t head = (b * a.h + h) * a.k * a.v;
  float* s = a.last + head;
  std::memcpy(s, a.start + head, a.k * a.v * sizeof(float));

  for (int64_t t = 0; t < a.t; ++t) {
    const int64_t row = (b * a.t + t) * a.h + h;
    normalise(a.query + row * a.k, a.k, scale, q);
    normalise(a.key + row * a.k, a.k, 1, k);
    decay_and_read(s, a.gate + row * a.k, k, a.k, a.v, u);
    const float* __restrict v = a.value + row * a.v;
    const float beta = a.beta[row];
    for (int64_t j = 0; j < a.v; ++j) u[j] = beta * (v[j] - u[j]);
    update_and_read(s, k, u, q, a.k, a.v, a.out + row * a.v);
  }
}

}  // namespace

extern "C" int marathon_run(const MarathonArgs* args) {
  const KdaArgs<float> a = kda_args<float>(args);
  if (a.k > max_dim || a.v > max_dim) return 1;
  for (int64_t b = 0; b < a.b; ++b)
    for (int64_t h = 0; h < a.h; ++h) run_head(a, b, h);
  return 0;
}
