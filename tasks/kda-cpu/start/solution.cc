// KDA forward with its choices as compile-time parameters (params.toml, help in task.toml).
//
// Columns of V are independent of one another, so the state is swept in tiles of VTILE columns.
// Time is cut into blocks of CHUNK · SPAN tokens: what depends on q, k and g alone is prepared once
// a block, then each tile of the state goes through the whole block while it is in L1.
//
//   FORM 0  plain loops over all of V, two passes over the state a token
//   FORM 1  the same two passes, a tile's sums held in registers
//   FORM 2  one pass a token: the rank-1 update waits and rides on the next token's decay, and
//           o = qᵀS + (q·k) u is read in the same pass as kᵀS
//   FORM 3  chunks of CHUNK tokens (WY form): two small matrix products a chunk and a triangular
//           solve; the state is read and written once a chunk instead of once a token
#include <cmath>
#include <cstring>
#include <utility>

#include "kda.h"

namespace {

constexpr int64_t tile_v = VTILE, lanes = LANES, chunk = CHUNK, block = CHUNK * SPAN;
constexpr int64_t vectors = tile_v / lanes;  // registers that hold one row of a tile
constexpr int64_t group = 8;  // tokens whose products with one token are summed at once
static_assert(tile_v % lanes == 0 && chunk % ROWS == 0);

typedef float Vec __attribute__((vector_size(LANES * 4), aligned(4), may_alias));
typedef int32_t IntVec __attribute__((vector_size(LANES * 4), aligned(4), may_alias));

#define INLINE inline __attribute__((always_inline))

INLINE Vec load(const float* p) { return *reinterpret_cast<const Vec*>(p); }
INLINE void store(float* p, Vec x) { *reinterpret_cast<Vec*>(p) = x; }

// x and y hold sums spread over groups of `width` lanes; the result holds both, spread over half.
template <int width, int... lane>
INLINE Vec fold_lanes(Vec x, Vec y, std::integer_sequence<int, lane...>) {
  constexpr int half = width / 2;
  return __builtin_shufflevector(
             x, y, (lane / half % 2 * LANES + lane / half / 2 * width + lane % half)...) +
         __builtin_shufflevector(
             x, y, (lane / half % 2 * LANES + lane / half / 2 * width + lane % half + half)...);
}

// Lane n of the result is the sum of x[n]: LANES sums for the shuffles of a few.
template <int width = LANES>
INLINE Vec sums_of(Vec* x) {
  if constexpr (width == 1) {
    return x[0];
  } else {
    for (int n = 0; n < width / 2; ++n)
      x[n] = fold_lanes<width>(x[n], x[n + width / 2], std::make_integer_sequence<int, LANES>());
    return sums_of<width / 2>(x);
  }
}

template <int width = LANES>
INLINE float sum_of(Vec x) {
  if constexpr (width == 1) {
    return x[0];
  } else {
    return sum_of<width / 2>(fold_lanes<width>(x, x, std::make_integer_sequence<int, LANES>()));
  }
}

// ---- exp and the L2 norm: PREP 0 as the baseline, 1 norms in vectors, 2 exp in vectors as well

// exp for -87 ≤ x ≤ 88, relative error below 1e-7, 3e-7 with -ffast-math (every float compared);
// smaller x give 1e-38, larger ones 1.7e38. The polynomial is exact at 0: a decay of 1 must not
// drift in a thousand tokens. The biased exponent is cut from a positive number: no rounding trick
// stands here that -ffast-math could fold away.
INLINE Vec exp_of(Vec x) {
  const Vec low = Vec{} - 87.0f, high = Vec{} + 88.0f;
  x = x > low ? x : low;
  if (ANCHOR != 2) x = x < high ? x : high;  // gates alone are never positive
  const IntVec biased = __builtin_convertvector(x * 1.44269504f + 127.5f, IntVec);
  const Vec n = __builtin_convertvector(biased - 127, Vec);
  const Vec r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
  Vec p = r * 1.381453782e-03f + 8.368745320e-03f;
  p = p * r + 4.166839083e-02f;
  p = p * r + 1.666652040e-01f;
  p = p * r + 4.999999343e-01f;
  p = p * (r * r) + r + 1.0f;
  return p * reinterpret_cast<Vec>(biased << 23);
}

template <int64_t K>
INLINE void exp_row(const float* __restrict x, float* __restrict result) {
  if constexpr (PREP == 2) {
    for (int64_t i = 0; i < K; i += lanes) store(result + i, exp_of(load(x + i)));
  } else {
    for (int64_t i = 0; i < K; ++i) result[i] = std::exp(x[i]);
  }
}

template <int64_t K>
INLINE float dot(const float* __restrict x, const float* __restrict y) {
  Vec sum = {};
  for (int64_t i = 0; i < K; i += lanes) sum += load(x + i) * load(y + i);
  return sum_of(sum);
}

// ---- what a block of tokens needs and every tile shares

template <int64_t K>
struct Prepared {
  float q[block][K];  // normalised and scaled; FORM 3: times exp(G)
  float k[block][K];  // normalised; FORM 3: times exp(G), G = gates summed from the chunk's start
  float decay[block][K];  // exp(g); FORM 3: the last row of a chunk is exp(G_last)
  float tail[block]
            [K];  // FORM 2: k of the token before times this decay; FORM 3: k exp(G_last - G)
  float beta[block];
  float qk[block];  // FORM 2: q·k
  // FORM 3, by j, then i in groups of 8: k_i k_j exp(G_i - G_j) for j < i, then the same with q_i
  // for j ≤ i.
  float pairs[block][chunk / group][2][group];
};

template <int64_t K>
struct Scratch {
  Prepared<K> prepared;
  float u[chunk][tile_v];
  float state[K * K];  // LAYOUT 1: one tile after the other, each [K][VTILE]
};

// What a token reads, into L1 ahead of its turn: rows of one head lie H · K floats apart. An
// address past the end is harmless to a prefetch.
template <int64_t K>
INLINE void prefetch_token(const KdaArgs<float>& a, int64_t row) {
  for (int64_t d = 0; d < K; d += 16) {
    __builtin_prefetch(a.query + row * K + d);
    __builtin_prefetch(a.key + row * K + d);
    __builtin_prefetch(a.gate + row * K + d);
    __builtin_prefetch(a.value + row * K + d);
  }
}

template <int64_t K>
INLINE float square_of(const float* __restrict x) {
  float sum = 0;
  for (int64_t i = 0; i < K; ++i) sum += x[i] * x[i];
  return sum;
}

// Σq² and Σk² of up to 8 tokens; the last of `count` is read again for those that are missing.
template <int64_t K>
INLINE void squares_of(const KdaArgs<float>& a, int64_t row, int64_t count, float* squares) {
  Vec sums[2 * group] = {};
  for (int64_t n = 0; n < group; ++n) {
    const int64_t at = (row + (n < count ? n : count - 1) * a.h) * K;
    if constexpr (PREP == 0) {
      squares[n] = square_of<K>(a.query + at);
      squares[group + n] = square_of<K>(a.key + at);
    } else {
      for (int64_t d = 0; d < K; d += lanes) {
        sums[n] += load(a.query + at + d) * load(a.query + at + d);
        sums[group + n] += load(a.key + at + d) * load(a.key + at + d);
      }
    }
  }
  if constexpr (PREP > 0)
    for (int64_t n = 0; n < 2 * group; n += lanes) store(squares + n, sums_of(sums + n));
}

template <int64_t K>
INLINE void scale_row(const float* __restrict x, float factor, float* __restrict result) {
  for (int64_t i = 0; i < K; ++i) result[i] = x[i] * factor;
}

// The part that all forms share.
template <int64_t K>
void prepare_tokens(const KdaArgs<float>& a, int64_t row, int64_t count, Prepared<K>& p) {
  const float scale = 1 / std::sqrt(static_cast<float>(K));
  float squares[2 * group];
  for (int64_t t = 0; t < count; ++t) {
    const int64_t n = t % group, at = (row + t * a.h) * K;
    if (n == 0) squares_of<K>(a, row + t * a.h, count - t, squares);
    scale_row<K>(a.query + at, scale / std::sqrt(squares[n] + kda_norm_epsilon), p.q[t]);
    scale_row<K>(a.key + at, 1 / std::sqrt(squares[group + n] + kda_norm_epsilon), p.k[t]);
    p.beta[t] = a.beta[row + t * a.h];
    if (FORM != 3 || ANCHOR == 2) exp_row<K>(a.gate + at, p.decay[t]);
    if constexpr (PREFETCH > 0) prefetch_token<K>(a, row + (t + PREFETCH) * a.h);
  }
}

// ---- FORM 0: the definition's four steps, as in the baseline

template <int64_t K>
INLINE void plain_read(const float* __restrict s, const float* __restrict x,
                       float* __restrict result) {
  for (int64_t j = 0; j < K; ++j) result[j] = 0;
  for (int64_t i = 0; i < K; ++i)
    for (int64_t j = 0; j < K; ++j) result[j] += x[i] * s[i * K + j];
}

template <int64_t K>
void plain_token(float* __restrict s, const Prepared<K>& p, int64_t t, const float* __restrict v,
                 float* __restrict out) {
  alignas(64) float u[K];
  for (int64_t i = 0; i < K; ++i)
    for (int64_t j = 0; j < K; ++j) s[i * K + j] *= p.decay[t][i];
  plain_read<K>(s, p.k[t], u);
  for (int64_t j = 0; j < K; ++j) u[j] = p.beta[t] * (v[j] - u[j]);
  for (int64_t i = 0; i < K; ++i)
    for (int64_t j = 0; j < K; ++j) s[i * K + j] += p.k[t][i] * u[j];
  plain_read<K>(s, p.q[t], out);
}

// ---- FORM 1: two passes, sums in registers

template <int64_t K>
INLINE void two_pass_token(float* __restrict s, int64_t stride, const Prepared<K>& p, int64_t t,
                           const float* __restrict v, float* __restrict out) {
  Vec u[vectors] = {}, o[vectors] = {};
  for (int64_t i = 0; i < K; i += ROWS) {
    for (int64_t r = 0; r < ROWS; ++r) {
      float* row = s + (i + r) * stride;
      for (int64_t n = 0; n < vectors; ++n) {
        const Vec x = load(row + n * lanes) * p.decay[t][i + r];
        store(row + n * lanes, x);
        u[n] += x * p.k[t][i + r];
      }
    }
  }
  for (int64_t n = 0; n < vectors; ++n) u[n] = (load(v + n * lanes) - u[n]) * p.beta[t];
  for (int64_t i = 0; i < K; i += ROWS) {
    for (int64_t r = 0; r < ROWS; ++r) {
      float* row = s + (i + r) * stride;
      for (int64_t n = 0; n < vectors; ++n) {
        const Vec x = load(row + n * lanes) + u[n] * p.k[t][i + r];
        store(row + n * lanes, x);
        o[n] += x * p.q[t][i + r];
      }
    }
  }
  for (int64_t n = 0; n < vectors; ++n) store(out + n * lanes, o[n]);
}

// ---- FORM 2: one pass, the update of a token waits for the next

template <int64_t K>
void prepare_one_pass(int64_t count, Prepared<K>& p) {
  for (int64_t t = 0; t < count; ++t) p.qk[t] = dot<K>(p.q[t], p.k[t]);
  for (int64_t i = 0; i < K; ++i) p.tail[0][i] = 0;
  for (int64_t t = 1; t < count; ++t)
    for (int64_t i = 0; i < K; ++i) p.tail[t][i] = p.k[t - 1][i] * p.decay[t][i];
}

template <int64_t K>
INLINE void one_pass_token(float* __restrict s, int64_t stride, const Prepared<K>& p, int64_t t,
                           const float* __restrict v, float* __restrict out, Vec* waiting) {
  Vec u[vectors] = {}, o[vectors] = {}, before[vectors];
  for (int64_t n = 0; n < vectors; ++n) before[n] = waiting[n];
  for (int64_t i = 0; i < K; i += ROWS) {
    for (int64_t r = 0; r < ROWS; ++r) {
      float* row = s + (i + r) * stride;
      for (int64_t n = 0; n < vectors; ++n) {
        const Vec x = load(row + n * lanes) * p.decay[t][i + r] + before[n] * p.tail[t][i + r];
        store(row + n * lanes, x);
        u[n] += x * p.k[t][i + r];
        o[n] += x * p.q[t][i + r];
      }
    }
  }
  for (int64_t n = 0; n < vectors; ++n) {
    u[n] = (load(v + n * lanes) - u[n]) * p.beta[t];
    store(out + n * lanes, o[n] + u[n] * p.qk[t]);
    waiting[n] = u[n];
  }
}

template <int64_t K>
INLINE void add_waiting(float* __restrict s, int64_t stride, const float* __restrict k,
                        const Vec* waiting) {
  for (int64_t i = 0; i < K; ++i)
    for (int64_t n = 0; n < vectors; ++n) {
      float* at = s + i * stride + n * lanes;
      store(at, load(at) + waiting[n] * k[i]);
    }
}

// ---- FORM 3: chunks

// The products of token j with the 8 tokens from i on, those before `from` left out. `x` is k_j
// times what decays it up to token i - 1; with DECAYED it is decayed further, token by token, and
// goes to `tail`.
template <int64_t K, int from, bool DECAYED>
INLINE void pair_group(const float* x, float* tail, int64_t i, const float (*__restrict k)[K],
                       const float (*__restrict q)[K], const float (*__restrict decay)[K],
                       float* __restrict result) {
  Vec sums[2 * group] = {};
  for (int64_t d = 0; d < K; d += lanes) {
    Vec y = load(x + d);
    if (from >= 0) sums[group + (from & 7)] += y * load(q[i + from] + d);
#pragma GCC unroll 8
    for (int n = from + 1; n < group; ++n) {
      if (DECAYED) y *= load(decay[i + n] + d);
      sums[n] += y * load(k[i + n] + d);
      sums[group + n] += y * load(q[i + n] + d);
    }
    if (DECAYED) store(tail + d, y);
  }
  for (int64_t n = 0; n < 2 * group; n += lanes) store(result + n, sums_of(sums + n));
}

template <int64_t K, bool DECAYED>
void pair_token(const float* x, float* tail, int64_t j, const float (*__restrict k)[K],
                const float (*__restrict q)[K], const float (*__restrict decay)[K],
                float (*__restrict result)[2][group]) {
  const int64_t i = j / group * group;
  float* first = &result[i / group][0][0];
  switch (j % group) {
    case 0:
      pair_group<K, 0, DECAYED>(x, tail, i, k, q, decay, first);
      break;
    case 1:
      pair_group<K, 1, DECAYED>(x, tail, i, k, q, decay, first);
      break;
    case 2:
      pair_group<K, 2, DECAYED>(x, tail, i, k, q, decay, first);
      break;
    case 3:
      pair_group<K, 3, DECAYED>(x, tail, i, k, q, decay, first);
      break;
    case 4:
      pair_group<K, 4, DECAYED>(x, tail, i, k, q, decay, first);
      break;
    case 5:
      pair_group<K, 5, DECAYED>(x, tail, i, k, q, decay, first);
      break;
    case 6:
      pair_group<K, 6, DECAYED>(x, tail, i, k, q, decay, first);
      break;
    case 7:
      pair_group<K, 7, DECAYED>(x, tail, i, k, q, decay, first);
      break;
  }
  for (int64_t next = i + group; next < chunk; next += group)
    pair_group<K, -1, DECAYED>(DECAYED ? tail : x, tail, next, k, q, decay,
                               &result[next / group][0][0]);
}

// ANCHOR 2: decays between two tokens as running products; every factor is ≤ 1, nothing overflows.
template <int64_t K>
void chunk_by_products(Prepared<K>& p, int64_t first) {
  const auto decay = p.decay + first;
  const auto k = p.k + first, q = p.q + first, tail = p.tail + first;
  for (int64_t j = 0; j < chunk; ++j)
    pair_token<K, true>(k[j], tail[j], j, k, q, decay, p.pairs[first + j]);
  for (int64_t d = 0; d < K; d += lanes) {
    Vec product = Vec{} + 1.0f;
    for (int64_t i = 0; i < chunk; ++i) {
      product *= load(decay[i] + d);
      store(k[i] + d, load(k[i] + d) * product);
      store(q[i] + d, load(q[i] + d) * product);
    }
    store(decay[chunk - 1] + d, product);
  }
}

// ANCHOR 0 and 1: exp(G_i - G_j) = exp(G_i - a) exp(a - G_j) with a = 0 (the chunk's start) or G in
// the chunk's middle. Overflows once the gates sum to more than 88 nats on one side of a.
template <int64_t K>
void chunk_by_anchor(const KdaArgs<float>& a, int64_t row, int64_t count, Prepared<K>& p,
                     int64_t first) {
  alignas(64) float sum[chunk][K], k_up[chunk][K], q_up[chunk][K], down[chunk][K], weight[K];
  const auto k = p.k + first, q = p.q + first, tail = p.tail + first, decay = p.decay + first;
  for (int64_t i = 0; i < chunk; ++i)
    for (int64_t d = 0; d < K; ++d) {
      const float g = i < count ? a.gate[(row + i * a.h) * K + d] : 0;
      sum[i][d] = i > 0 ? sum[i - 1][d] + g : g;
    }
  alignas(64) float anchor[K] = {};
  if (ANCHOR == 1) std::memcpy(anchor, sum[chunk / 2], sizeof anchor);

  for (int64_t i = 0; i < chunk; ++i) {
    for (int64_t d = 0; d < K; ++d) weight[d] = anchor[d] - sum[i][d];
    exp_row<K>(weight, down[i]);
    for (int64_t d = 0; d < K; ++d) weight[d] = sum[i][d] - anchor[d];
    exp_row<K>(weight, k_up[i]);
    for (int64_t d = 0; d < K; ++d) weight[d] = sum[chunk - 1][d] - sum[i][d];
    exp_row<K>(weight, tail[i]);
    exp_row<K>(sum[i], decay[i]);
    for (int64_t d = 0; d < K; ++d) {
      down[i][d] *= k[i][d], tail[i][d] *= k[i][d];
      q_up[i][d] = q[i][d] * k_up[i][d], k_up[i][d] *= k[i][d];
      k[i][d] *= decay[i][d], q[i][d] *= decay[i][d];
    }
  }
  for (int64_t j = 0; j < chunk; ++j)
    pair_token<K, false>(down[j], nullptr, j, k_up, q_up, nullptr, p.pairs[first + j]);
}

template <int64_t K>
void prepare_chunks(const KdaArgs<float>& a, int64_t row, int64_t count, Prepared<K>& p) {
  const int64_t padded = (count + chunk - 1) / chunk * chunk;
  for (int64_t t = count; t < padded; ++t) {
    for (int64_t d = 0; d < K; ++d) p.q[t][d] = p.k[t][d] = 0, p.decay[t][d] = 1;
    p.beta[t] = 0;
  }
  for (int64_t first = 0; first < padded; first += chunk) {
    if constexpr (ANCHOR == 2) {
      chunk_by_products<K>(p, first);
    } else {
      chunk_by_anchor<K>(a, row + first * a.h, count - first, p, first);
    }
  }
}

// ROWS tokens read the tile at once: each row of the state is loaded once for 2 · ROWS sums.
template <int64_t K>
INLINE void read_state(const float* __restrict s, int64_t stride, const Prepared<K>& p, int64_t t,
                       Vec (*__restrict by_k)[vectors], Vec (*__restrict by_q)[vectors]) {
  for (int64_t i = 0; i < K; ++i) {
    Vec x[vectors];
    for (int64_t n = 0; n < vectors; ++n) x[n] = load(s + i * stride + n * lanes);
    for (int64_t r = 0; r < ROWS; ++r)
      for (int64_t n = 0; n < vectors; ++n) {
        by_k[r][n] += x[n] * p.k[t + r][i];
        by_q[r][n] += x[n] * p.q[t + r][i];
      }
  }
}

// S ← diag(exp(G_last)) S + Σ_t tail_t u_tᵀ, 2 · ROWS rows of the state in registers.
template <int64_t K>
INLINE void update_state(float* __restrict s, int64_t stride, const Prepared<K>& p, int64_t first,
                         const float (*__restrict u)[tile_v]) {
  constexpr int64_t rows = 2 * ROWS;
  for (int64_t i = 0; i < K; i += rows) {
    Vec x[rows][vectors];
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t n = 0; n < vectors; ++n)
        x[r][n] = load(s + (i + r) * stride + n * lanes) * p.decay[first + chunk - 1][i + r];
    for (int64_t t = 0; t < chunk; ++t)
      for (int64_t n = 0; n < vectors; ++n) {
        const Vec y = load(u[t] + n * lanes);
        for (int64_t r = 0; r < rows; ++r) x[r][n] += y * p.tail[first + t][i + r];
      }
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t n = 0; n < vectors; ++n) store(s + (i + r) * stride + n * lanes, x[r][n]);
  }
}

// u_i = β_i (v_i - k_iᵀS - Σ_{j<i} pair_ij u_j), o_i = q_iᵀS + Σ_{j≤i} pair'_ij u_j for ROWS tokens
// at once: first all u that are known, then the triangle of these tokens, all in registers.
template <int64_t K, bool FULL>
INLINE void chunk_tile(float* __restrict s, int64_t stride, const Prepared<K>& p, int64_t first,
                       int64_t count, const float* v, float* out, int64_t step,
                       float (*__restrict u)[tile_v]) {
  for (int64_t t = 0; t < chunk; t += ROWS) {
    Vec x[ROWS][vectors] = {}, o[ROWS][vectors] = {};
    read_state<K>(s, stride, p, first + t, x, o);
    for (int64_t j = 0; j < t; ++j) {
      const float* pair = &p.pairs[first + j][t / group][0][t % group];
      for (int64_t n = 0; n < vectors; ++n) {
        const Vec y = load(u[j] + n * lanes);
        for (int64_t r = 0; r < ROWS; ++r) x[r][n] += y * pair[r], o[r][n] += y * pair[group + r];
      }
    }
#pragma GCC unroll 8
    for (int64_t j = 0; j < ROWS; ++j) {
      const float* pair = &p.pairs[first + t + j][t / group][0][t % group];
      const float beta = p.beta[first + t + j];
      const bool real_token = FULL || t + j < count;
      for (int64_t n = 0; n < vectors; ++n) {
        const int64_t at = (t + j) * step + n * lanes;
        const Vec y = real_token ? (load(v + at) - x[j][n]) * beta : Vec{};
        store(u[t + j] + n * lanes, y);
        if (real_token) store(out + at, o[j][n] + y * pair[group + j]);
#pragma GCC unroll 8
        for (int64_t r = j + 1; r < ROWS; ++r)
          x[r][n] += y * pair[r], o[r][n] += y * pair[group + r];
      }
    }
  }
  update_state<K>(s, stride, p, first, u);
}

// ---- one head

template <int64_t K>
void sweep_tile(const KdaArgs<float>& a, float* s, int64_t stride, int64_t row, int64_t column,
                int64_t count, Scratch<K>& scratch) {
  const Prepared<K>& p = scratch.prepared;
  const int64_t step = a.h * K;
  const float* v = a.value + row * K + column;
  float* out = a.out + row * K + column;
  if constexpr (FORM == 1) {
    for (int64_t t = 0; t < count; ++t)
      two_pass_token<K>(s, stride, p, t, v + t * step, out + t * step);
  } else if constexpr (FORM == 2) {
    Vec waiting[vectors] = {};
    for (int64_t t = 0; t < count; ++t)
      one_pass_token<K>(s, stride, p, t, v + t * step, out + t * step, waiting);
    add_waiting<K>(s, stride, p.k[count - 1], waiting);
  } else {
    int64_t t = 0;
    for (; t + chunk <= count; t += chunk)
      chunk_tile<K, true>(s, stride, p, t, chunk, v + t * step, out + t * step, step, scratch.u);
    if (t < count)
      chunk_tile<K, false>(s, stride, p, t, count - t, v + t * step, out + t * step, step,
                           scratch.u);
  }
}

template <int64_t K>
void sweep_block(const KdaArgs<float>& a, float* state, int64_t row, int64_t count,
                 Scratch<K>& scratch) {
  Prepared<K>& p = scratch.prepared;
  prepare_tokens<K>(a, row, count, p);
  if constexpr (FORM == 0) {
    for (int64_t t = 0; t < count; ++t)
      plain_token<K>(state, p, t, a.value + (row + t * a.h) * K, a.out + (row + t * a.h) * K);
    return;
  }
  if constexpr (FORM == 2) prepare_one_pass<K>(count, p);
  if constexpr (FORM == 3) prepare_chunks<K>(a, row, count, p);
  constexpr int64_t stride = LAYOUT == 1 ? tile_v : K;
  for (int64_t column = 0; column < K; column += tile_v)
    sweep_tile<K>(a, state + column * (LAYOUT == 1 ? K : 1), stride, row, column, count, scratch);
}

// LAYOUT 1 keeps tiles contiguous: rows K floats apart meet in few sets of L1.
template <int64_t K>
void pack(const float* __restrict from, float* __restrict to) {
  for (int64_t column = 0; column < K; column += tile_v)
    for (int64_t i = 0; i < K; ++i, to += tile_v)
      std::memcpy(to, from + i * K + column, tile_v * sizeof(float));
}

template <int64_t K>
void unpack(const float* __restrict from, float* __restrict to) {
  for (int64_t column = 0; column < K; column += tile_v)
    for (int64_t i = 0; i < K; ++i, from += tile_v)
      std::memcpy(to + i * K + column, from, tile_v * sizeof(float));
}

template <int64_t K>
void run_head(const KdaArgs<float>& a, int64_t b, int64_t h, Scratch<K>& scratch) {
  const float* start = a.start + (b * a.h + h) * K * K;
  float* last = a.last + (b * a.h + h) * K * K;
  float* state = LAYOUT == 1 ? scratch.state : last;
  if (LAYOUT == 1) {
    pack<K>(start, state);
  } else {
    std::memcpy(state, start, K * K * sizeof(float));
  }
  for (int64_t t = 0; t < a.t; t += block) {
    const int64_t left = a.t - t;
    sweep_block<K>(a, state, (b * a.t + t) * a.h + h, left < block ? left : block, scratch);
  }
  if (LAYOUT == 1) unpack<K>(state, last);
}

template <int64_t K>
void run_all(const KdaArgs<float>& a, void* workspace) {
  Scratch<K>& scratch = *static_cast<Scratch<K>*>(workspace);
  for (int64_t b = 0; b < a.b; ++b)
    for (int64_t h = 0; h < a.h; ++h) run_head<K>(a, b, h, scratch);
}

}  // namespace

extern "C" int64_t marathon_workspace_bytes(const int64_t* dims, int64_t) {
  return dims[3] == 64 ? sizeof(Scratch<64>) : sizeof(Scratch<128>);
}

extern "C" int marathon_run(const MarathonArgs* args) {
  const KdaArgs<float> a = kda_args<float>(args);
  if (a.k != a.v) return 1;
  if (a.k == 64) return run_all<64>(a, args->workspace), 0;
  if (a.k == 128) return run_all<128>(a, args->workspace), 0;
  return 1;
}
