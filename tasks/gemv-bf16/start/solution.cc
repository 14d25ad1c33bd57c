// y = A x with its choices as compile-time parameters (params.toml, help in task.toml).
//
// ROWS rows are read side by side, so that a load of x serves all of them and the memory system
// sees several streams. Columns go in blocks of COLUMNS (0: the whole row), so that x stays in L1.
// x is widened to fp32 once, in the order in which the conversion of A yields its elements.
#include "gemv.h"

namespace {

constexpr int64_t lanes = LANES, step = 2 * lanes * UNROLL;  // elements of a row in one turn

typedef float Vec __attribute__((vector_size(LANES * 4), aligned(4), may_alias));
typedef uint32_t Bits __attribute__((vector_size(LANES * 4), aligned(2), may_alias));
typedef uint16_t Half __attribute__((vector_size(LANES * 2), aligned(2), may_alias));

#define INLINE inline __attribute__((always_inline))

INLINE Vec load(const float* p) { return *reinterpret_cast<const Vec*>(p); }

// 2 · LANES elements of A as two vectors. CONVERT 0: in order, zero-extended. CONVERT 1: the even
// ones by a shift, the odd ones by a mask, from one full-width load.
INLINE void widen(const uint16_t* p, Vec& first, Vec& second) {
  if constexpr (CONVERT == 0) {
    const Half low = *reinterpret_cast<const Half*>(p);
    const Half high = *reinterpret_cast<const Half*>(p + lanes);
    first = reinterpret_cast<Vec>(__builtin_convertvector(low, Bits) << 16);
    second = reinterpret_cast<Vec>(__builtin_convertvector(high, Bits) << 16);
  } else {
    const Bits pairs = *reinterpret_cast<const Bits*>(p);
    first = reinterpret_cast<Vec>(pairs << 16);
    second = reinterpret_cast<Vec>(pairs & 0xffff0000u);
  }
}

// x in the order of `widen` up to the last whole turn, then as it is.
void widen_x(const uint16_t* __restrict from, int64_t n, float* __restrict to) {
  const int64_t whole = n / step * step;
  for (int64_t j = 0; j < whole; j += 2 * lanes)
    for (int64_t l = 0; l < lanes; ++l) {
      to[j + l] = float_of(from[CONVERT == 0 ? j + l : j + 2 * l]);
      to[j + lanes + l] = float_of(from[CONVERT == 0 ? j + lanes + l : j + 2 * l + 1]);
    }
  for (int64_t j = whole; j < n; ++j) to[j] = float_of(from[j]);
}

INLINE float sum_of(Vec x) {
  float sum = 0;
  for (int64_t l = 0; l < lanes; ++l) sum += x[l];
  return sum;
}

// y[0 … rows) += A[:, first … last) x[first … last)
template <int64_t rows>
INLINE void add_block(const uint16_t* a, int64_t n, const float* x, int64_t first, int64_t last,
                      float* y) {
  Vec sums[rows][2 * UNROLL] = {};
  int64_t j = first;
  for (; j + step <= last; j += step) {
    for (int64_t r = 0; r < rows; ++r) {
      const uint16_t* row = a + r * n + j;
      if constexpr (PREFETCH > 0)
        for (int64_t ahead = 0; ahead < step; ahead += 32)
          __builtin_prefetch(row + ahead + PREFETCH / 2, 0, STREAM ? 0 : 3);
      for (int64_t u = 0; u < UNROLL; ++u) {
        Vec even, odd;
        widen(row + u * 2 * lanes, even, odd);
        sums[r][2 * u] += even * load(x + j + u * 2 * lanes);
        sums[r][2 * u + 1] += odd * load(x + j + u * 2 * lanes + lanes);
      }
    }
  }
  for (int64_t r = 0; r < rows; ++r) {
    Vec all = sums[r][0];
    for (int64_t u = 1; u < 2 * UNROLL; ++u) all += sums[r][u];
    float sum = sum_of(all);
    for (int64_t i = j; i < last; ++i) sum += float_of(a[r * n + i]) * x[i];
    y[r] += sum;
  }
}

template <int64_t rows>
void run_rows(const GemvArgs& g, int64_t from, int64_t to, const float* x) {
  constexpr int64_t columns = COLUMNS;
  static_assert(columns % step == 0);  // x changes its order behind the last whole turn
  for (int64_t i = from; i < to; i += rows)
    for (int64_t r = 0; r < rows; ++r) g.y[i + r] = 0;
  const int64_t width = columns == 0 || columns > g.n ? (g.n > 0 ? g.n : 1) : columns;
  for (int64_t first = 0; first < g.n; first += width) {
    const int64_t last = first + width < g.n ? first + width : g.n;
    for (int64_t i = from; i < to; i += rows)
      add_block<rows>(g.a + i * g.n, g.n, x, first, last, g.y + i);
  }
}

}  // namespace

extern "C" int64_t marathon_workspace_bytes(const int64_t* dims, int64_t) {
  return dims[1] * static_cast<int64_t>(sizeof(float));
}

extern "C" int marathon_run(const MarathonArgs* args) {
  const GemvArgs g = gemv_args(args);
  float* x = static_cast<float*>(args->workspace);
  widen_x(g.x, g.n, x);
  const int64_t whole = g.m / ROWS * ROWS;
  run_rows<ROWS>(g, 0, whole, x);
  run_rows<1>(g, whole, g.m, x);
  return 0;
}
