// KDA forward by its definition, one token after the other, everything in `real`.
//
// As double it is the reference. As float it is the honest emulation whose error on the same inputs
// sets the bound: a candidate may order its sums as it likes, but not forget, and not round lower.
#include <cmath>
#include <vector>

#include "kda.h"

namespace {

// x / √(Σx² + epsilon) · scale
void normalise(const real* x, int64_t n, real scale, std::vector<real>& result) {
  real sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += x[i] * x[i];
  const real factor = scale / std::sqrt(sum + static_cast<real>(kda_norm_epsilon));
  for (int64_t i = 0; i < n; ++i) result[i] = x[i] * factor;
}

void run_head(const KdaArgs<real>& a, int64_t b, int64_t h) {
  const real scale = 1 / std::sqrt(static_cast<real>(a.k));
  std::vector<real> q(a.k), k(a.k), u(a.v), o(a.v);
  real* s = a.last + (b * a.h + h) * a.k * a.v;
  const real* s0 = a.start + (b * a.h + h) * a.k * a.v;
  for (int64_t i = 0; i < a.k * a.v; ++i) s[i] = s0[i];

  for (int64_t t = 0; t < a.t; ++t) {
    const int64_t row = (b * a.t + t) * a.h + h;
    normalise(a.query + row * a.k, a.k, scale, q);
    normalise(a.key + row * a.k, a.k, 1, k);
    for (int64_t j = 0; j < a.v; ++j) u[j] = o[j] = 0;
    for (int64_t i = 0; i < a.k; ++i) {
      const real decay = std::exp(a.gate[row * a.k + i]);
      for (int64_t j = 0; j < a.v; ++j) {
        s[i * a.v + j] *= decay;
        u[j] += k[i] * s[i * a.v + j];
      }
    }
    for (int64_t j = 0; j < a.v; ++j) u[j] = a.beta[row] * (a.value[row * a.v + j] - u[j]);
    for (int64_t i = 0; i < a.k; ++i) {
      for (int64_t j = 0; j < a.v; ++j) {
        s[i * a.v + j] += k[i] * u[j];
        o[j] += q[i] * s[i * a.v + j];
      }
    }
    for (int64_t j = 0; j < a.v; ++j) a.out[row * a.v + j] = o[j];
  }
}

}  // namespace

extern "C" int marathon_oracle(const MarathonArgs* args) {
  const KdaArgs<real> a = kda_args<real>(args);
  for (int64_t b = 0; b < a.b; ++b)
    for (int64_t h = 0; h < a.h; ++h) run_head(a, b, h);
  return 0;
}
