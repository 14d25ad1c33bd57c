// MLA prefill by its definition, in plain C++: what oracle.cu is compared with, for small shapes.
//
// With MARATHON_EMULATION probabilities are rounded to bf16 before the second product, as an honest
// kernel rounds them. Floating tensors are `real`, whole numbers int64_t.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "marathon_kernel.h"

namespace {

constexpr int64_t width = 512;

real as_operand(real p) {
#ifdef MARATHON_EMULATION
  uint32_t bits;
  std::memcpy(&bits, &p, 4);
  bits = (bits + 0x7fff + ((bits >> 16) & 1)) & 0xffff0000;
  std::memcpy(&p, &bits, 4);
#endif
  return p;
}

// Softmax of q over the first `count` keys, and with it the mean of their values. Without a key all
// is 0.
void attend(const real* q, const real* keys, int64_t count, int64_t depth, real* out, real& lse) {
  const real scale = 1 / std::sqrt(static_cast<real>(depth));
  std::vector<real> score(count);
  for (int64_t j = 0; j < count; ++j) {
    real dot = 0;
    for (int64_t d = 0; d < depth; ++d) dot += q[d] * keys[j * depth + d];
    score[j] = scale * dot;
  }
  for (int64_t d = 0; d < width; ++d) out[d] = 0;
  lse = 0;
  if (count == 0) return;
  const real top = *std::max_element(score.begin(), score.end());
  real total = 0;
  for (int64_t j = 0; j < count; ++j) {
    const real p = std::exp(score[j] - top);
    total += p;
    for (int64_t d = 0; d < width; ++d) out[d] += as_operand(p) * keys[j * depth + d];
  }
  for (int64_t d = 0; d < width; ++d) out[d] /= total;
  lse = top + std::log(total);
}

}  // namespace

extern "C" int marathon_oracle(const MarathonArgs* args) {
  const int64_t* dims = args->dims;  // B, H, T, S, R, causal, offset
  const int64_t heads = dims[1], tokens = dims[2], keys = dims[3], depth = width + dims[4];
  void* const* t = args->tensors;  // q, latent, o, lse
  const real *q = static_cast<const real*>(t[0]), *latent = static_cast<const real*>(t[1]);
  real *out = static_cast<real*>(t[2]), *lse = static_cast<real*>(t[3]);
  for (int64_t row = 0; row < dims[0] * heads * tokens; ++row) {
    const int64_t b = row / (heads * tokens), last = row % tokens + dims[6];
    const int64_t count = dims[5] != 0 ? std::clamp(last + 1, int64_t{0}, keys) : keys;
    attend(q + row * depth, latent + b * keys * depth, count, depth, out + row * width, lse[row]);
  }
  return 0;
}
