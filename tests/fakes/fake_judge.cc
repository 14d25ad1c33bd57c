// What the judge's own kernels (src/bench/cuda/judge_kernels.cu) do, on the host: the same numbers
// in double precision, and clocks that grow with the work where a probe looks at that.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

#include "bench/dtype.h"
#include "fake_cuda.h"

namespace marathon::fake {

namespace {

// A copy longer than this takes its time and moves nothing: a probe of bandwidth has gigabytes.
constexpr int64_t most_copied_bytes = 64 << 20;
// 64 × 256 × 16 multiply-adds of two groups, at 4096 operations a cycle and 1.98 GHz.
constexpr int64_t matmul_step_ns = 129;
constexpr uint64_t quiet_gap_ns = 1000, foreign_gap_ns = 2'000'000;

uint64_t mixed(uint64_t seed, uint64_t i) {
  uint64_t z = seed + (i + 1) * 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

double uniform(uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1p-53; }

double normal(uint64_t bits) {
  const double u = (static_cast<double>(bits >> 32) + 1) * 0x1p-32;
  const double v = static_cast<double>(bits & 0xffffffff) * 0x1p-32;
  return std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v);
}

// By the numbers of Distribution::Kind.
double draw(int kind, double a, double b, uint64_t seed, int64_t i, int64_t row) {
  const int64_t column = i % row;
  const uint64_t bits = mixed(seed, static_cast<uint64_t>(kind == 7 ? column : i));
  const auto log_uniform = [&] { return a * std::pow(b / a, uniform(bits)); };
  switch (kind) {
    case 0:
    case 7:
      return a + b * normal(bits);
    case 1:
      return a + (b - a) * uniform(bits);
    case 2:
      return log_uniform();
    case 3:
      return a;
    case 4:
      return std::floor(a + (b - a + 1) * uniform(bits));
    case 5:
      return (bits & 1) != 0 ? a : b;
    case 6:
      return column < row / 2 ? a : b;
    case 8:
      return -log_uniform();
    default:
      return std::log(log_uniform() / (1 - log_uniform()));
  }
}

// As in judge_kernels.cu.
struct Rows {
  uint64_t output, expected;
  int32_t type, round_to, rank, axis;
  int64_t full[8], compact[8];
  uint64_t indices;
  int64_t row, cuts, count;
};
struct Sums {
  double error, truth, worst, odd;
};

double rounded(DType type, double value) {
  char bytes[8];
  set_element(type, bytes, 0, value);
  return element_at(type, bytes, 0);
}

// First element of the row's line in the output, and where its sampled axis is the last one.
int64_t base_of(const Rows& job, int64_t line, const int64_t* indices) {
  int64_t base = 0, stride = job.full[job.rank - 1];
  for (int axis = job.rank - 2; axis >= 0; --axis) {
    const int64_t place = line % job.compact[axis];
    line /= job.compact[axis];
    base += (axis == job.axis ? indices[place] : place) * stride;
    stride *= job.full[axis];
  }
  return base;
}

Sums sums_of(const Rows& job, int64_t index, const int64_t* indices) {
  const int last = job.rank - 1;
  const int64_t line = index / job.cuts, begin = index % job.cuts * job.row;
  const int64_t end = std::min(begin + job.row, job.compact[last]);
  const int64_t base = base_of(job, line, indices);
  const double* expected = reinterpret_cast<const double*>(job.expected) + line * job.compact[last];
  Sums sums = {};
  for (int64_t c = begin; c < end; ++c) {
    const int64_t place = base + (last == job.axis ? indices[c] : c);
    const double want = expected[c];
    const double got = rounded(
        static_cast<DType>(job.round_to),
        element_at(static_cast<DType>(job.type), reinterpret_cast<const char*>(job.output), place));
    if (std::isfinite(want) && std::isfinite(got)) {
      sums.error += (got - want) * (got - want);
      sums.truth += want * want;
      sums.worst = std::max(sums.worst, std::abs(got - want));
    } else if (std::isnan(want) ? !std::isnan(got) : got != want) {
      sums.odd = std::max(sums.odd, static_cast<double>(c - begin + 1));
    }
  }
  return sums;
}

}  // namespace

int judge_fill(const Launch& launch) {
  const DType type = static_cast<DType>(launch.parameter<int32_t>(1));
  const int64_t count = launch.parameter<int64_t>(2), row = launch.parameter<int64_t>(3);
  const double norm = launch.parameter<double>(7);
  char* to = launch.memory<char>(0, count * bytes_of(type), true);
  if (!to) return CUDA_ERROR_ILLEGAL_ADDRESS;
  const auto value = [&](int64_t i) {
    return draw(launch.parameter<int32_t>(4), launch.parameter<double>(5),
                launch.parameter<double>(6), launch.parameter<uint64_t>(8), i, row);
  };
  for (int64_t begin = 0; begin < count; begin += row) {
    const int64_t end = std::min(begin + row, count);
    double sum = 0;
    for (int64_t i = begin; norm > 0 && i < end; ++i) sum += value(i) * value(i);
    const double factor = norm <= 0 ? 1 : (sum > 0 ? norm / std::sqrt(sum) : 0);
    for (int64_t i = begin; i < end; ++i) set_element(type, to, i, factor * value(i));
  }
  return CUDA_SUCCESS;
}

int judge_poison(const Launch& launch) {
  const int64_t begin = launch.parameter<int64_t>(1), end = launch.parameter<int64_t>(2);
  uint64_t* to = launch.memory<uint64_t>(0, end, true);
  if (!to) return CUDA_ERROR_ILLEGAL_ADDRESS;
  for (int64_t i = begin; i < end; ++i)
    to[i] = mixed(launch.parameter<uint64_t>(3), static_cast<uint64_t>(i));
  return CUDA_SUCCESS;
}

int judge_find_damage(const Launch& launch) {
  const int64_t begin = launch.parameter<int64_t>(1), end = launch.parameter<int64_t>(2);
  const uint8_t* bytes = launch.memory<uint8_t>(0, end, false);
  uint64_t* first = launch.memory<uint64_t>(4, 1, true);
  if (!bytes || !first) return CUDA_ERROR_ILLEGAL_ADDRESS;
  for (int64_t i = begin; i < end; ++i) {
    const uint64_t word = mixed(launch.parameter<uint64_t>(3), static_cast<uint64_t>(i / 8));
    if (bytes[i] != static_cast<uint8_t>(word >> (i % 8 * 8)))
      *first = std::min(*first, static_cast<uint64_t>(i));
  }
  return CUDA_SUCCESS;
}

int judge_digest(const Launch& launch) {
  const int64_t count = launch.parameter<int64_t>(1);
  const uint64_t* words = launch.memory<uint64_t>(0, count, false);
  uint64_t* sum = launch.memory<uint64_t>(2, 1, true);
  if (!words || !sum) return CUDA_ERROR_ILLEGAL_ADDRESS;
  for (int64_t i = 0; i < count; ++i)
    *sum += mixed(words[i] ^ 0x2545f4914f6cdd1d, static_cast<uint64_t>(i));
  return CUDA_SUCCESS;
}

int judge_read(const Launch& launch) {
  const int64_t bytes = launch.parameter<int64_t>(1) * 16;
  launch.clock_ns += bytes / copy_bytes_a_ns;
  return launch.memory<char>(0, bytes, false) ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_ADDRESS;
}

int judge_rows(const Launch& launch) {
  const Rows job = launch.parameter<Rows>(0);
  Sums* sums = launch.memory<Sums>(1, job.count, true);
  if (!sums || !reach(job.output, 1, false) || !reach(job.expected, 8, false))
    return CUDA_ERROR_ILLEGAL_ADDRESS;
  const int64_t* indices =
      job.axis < 0
          ? nullptr
          : reinterpret_cast<const int64_t*>(reach(job.indices, job.compact[job.axis] * 8, false));
  if (job.axis >= 0 && !indices) return CUDA_ERROR_ILLEGAL_ADDRESS;
  for (int64_t r = 0; r < job.count; ++r) sums[r] = sums_of(job, r, indices);
  return CUDA_SUCCESS;
}

int judge_probe(const Launch& launch) {
  uint64_t* longest = launch.memory<uint64_t>(1, 1, true);
  if (!longest) return CUDA_ERROR_ILLEGAL_ADDRESS;
  launch.clock_ns += launch.parameter<int64_t>(0);
  *longest = std::max(*longest, world().options.shared ? foreign_gap_ns : quiet_gap_ns);
  return CUDA_SUCCESS;
}

int judge_copy(const Launch& launch) {
  const int64_t bytes = launch.parameter<int64_t>(2) * 16;
  const char* from = launch.memory<char>(0, bytes, false);
  char* to = launch.memory<char>(1, bytes, true);
  if (!from || !to) return CUDA_ERROR_ILLEGAL_ADDRESS;
  launch.clock_ns += 2 * bytes / copy_bytes_a_ns;
  if (bytes <= most_copied_bytes) std::memmove(to, from, static_cast<size_t>(bytes));
  return CUDA_SUCCESS;
}

int judge_matmul(const Launch& launch) {
  launch.clock_ns += launch.parameter<int64_t>(0) * matmul_step_ns;
  return CUDA_SUCCESS;
}

}  // namespace marathon::fake
