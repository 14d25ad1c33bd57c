#include "bench/peaks.h"

#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <functional>
#include <vector>

namespace marathon {

namespace {

// Twelve independent chains hide the latency of a multiply-add (4 cycles, two a cycle, and spare)
// and fit the registers of every instruction set, one vector each.
constexpr int64_t chains = 12;
#define EACH_CHAIN(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)
// NOLINTBEGIN(bugprone-macro-parentheses): the argument is a part of a name
#define DECLARE(i)  \
  Vector c##i = {}; \
  c##i += static_cast<float>(i + 1);
#define STEP(i) c##i = c##i * scale + shift;
// NOLINTEND(bugprone-macro-parentheses)
#define KEEP(i) total += c##i;

template <class Vector>
[[gnu::always_inline]] inline float multiply_adds(int64_t rounds) {
  EACH_CHAIN(DECLARE)
  Vector scale = {}, shift = {}, total = {};
  scale += 0.999f;
  shift += 0.001f;
  for (int64_t r = 0; r < rounds; ++r) {
    EACH_CHAIN(STEP)
  }
  EACH_CHAIN(KEEP)
  return total[0] + total[1];
}

template <class Vector>
[[gnu::always_inline]] inline float read_all(const float* data, int64_t count, int64_t passes) {
  constexpr int64_t width = sizeof(Vector) / sizeof(float);
  Vector sums[8] = {};
  for (int64_t pass = 0; pass < passes; ++pass) {
    for (int64_t i = 0; i + 8 * width <= count; i += 8 * width) {
      for (int64_t lane = 0; lane < 8; ++lane)
        sums[lane] += *reinterpret_cast<const Vector*>(data + i + lane * width);
    }
    asm volatile("" ::: "memory");  // the next pass reads again
  }
  Vector total = {};
  for (const Vector& sum : sums) total += sum;
  return total[0] + total[1];
}

// One copy for each width of vectors; target_clones was refused: its "arch=" names leave out AMD.
struct Probe {
  int64_t width;  // floats a vector
  float (*multiply)(int64_t rounds);
  float (*read)(const float* data, int64_t count, int64_t passes);
};

#define PROBE(name, bytes, ...)                                                                  \
  typedef float Vector_##name __attribute__((vector_size(bytes)));                               \
  __attribute__((                                                                                \
      optimize("O3"),                                                                            \
      noinline __VA_OPT__(, target(__VA_ARGS__)))) float multiply_##name(int64_t rounds) {       \
    return multiply_adds<Vector_##name>(rounds);                                                 \
  }                                                                                              \
  __attribute__((optimize("O3"), noinline __VA_OPT__(, target(__VA_ARGS__)))) float read_##name( \
      const float* data, int64_t count, int64_t passes) {                                        \
    return read_all<Vector_##name>(data, count, passes);                                         \
  }                                                                                              \
  constexpr Probe probe_##name = {bytes / 4, multiply_##name, read_##name};

PROBE(plain, 16)
#if defined(__x86_64__)
PROBE(avx2, 32, "avx2,fma")
PROBE(avx512, 64, "avx512f,fma,prefer-vector-width=512")
#endif

const Probe& probe() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return probe_avx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return probe_avx2;
#endif
  return probe_plain;
}

volatile float sink = 0;

// CPU time of this thread: what else runs on the core must not make the machine look slower.
double thread_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double seconds_of(const std::function<void(int64_t)>& work, int64_t amount) {
  const double start = thread_seconds();
  work(amount);
  return thread_seconds() - start;
}

// Seconds for one unit of work, from a pair that agrees with itself; the fastest of several.
Result<double> unit_seconds(const std::function<void(int64_t)>& work, int64_t amount) {
  while (seconds_of(work, amount) < 0.004) amount *= 2;
  double best = 0;
  int agreed = 0;
  for (int attempt = 0; attempt < 40 && agreed < 5; ++attempt) {
    const double once = seconds_of(work, amount), twice = seconds_of(work, 2 * amount);
    if (twice < 1.8 * once || twice > 2.2 * once) continue;  // disturbed, or not doing the work
    ++agreed;
    const double unit = twice / static_cast<double>(2 * amount);
    best = best == 0 ? unit : std::min(best, unit);
  }
  if (agreed < 2)
    return fail(Fault::retry,
                "the probe of the machine's peaks does not repeat: twice the work does not take "
                "twice the time");
  return best;
}

Result<double> read_gbytes_s(int64_t bytes) {
  const int64_t count = bytes / 4 / 128 * 128;
  std::vector<float> storage(static_cast<size_t>(count) + 16, 1.0f);
  const auto address = reinterpret_cast<uintptr_t>(storage.data());
  const float* data = storage.data() + (64 - address % 64) % 64 / 4;
  const double seconds = TRY(
      unit_seconds([&](int64_t passes) { sink = sink + probe().read(data, count, passes); }, 1));
  return static_cast<double>(count) * 4 / seconds * 1e-9;
}

}  // namespace

int64_t cache_bytes(int level) {
  for (int index = 0; index < 8; ++index) {
    const std::string base = fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/", index);
    std::ifstream level_file(base + "level"), type_file(base + "type"), size_file(base + "size");
    int found = 0;
    std::string type, size;
    if (!(level_file >> found) || !(type_file >> type) || !(size_file >> size)) continue;
    if (found != level || type == "Instruction") continue;
    const int64_t number = std::atoll(size.c_str());
    return size.back() == 'M' ? number << 20 : size.back() == 'K' ? number << 10 : number;
  }
  return 0;
}

int64_t last_level_cache_bytes() {
  for (int level = 4; level >= 2; --level) {
    if (const int64_t bytes = cache_bytes(level); bytes > 0) return bytes;
  }
  return 32LL << 20;
}

Result<Peaks> measure_peaks() {
  Peaks peaks;
  const double seconds =
      TRY(unit_seconds([&](int64_t rounds) { sink = sink + probe().multiply(rounds); }, 1 << 16));
  const double flops_a_round = static_cast<double>(2 * chains * probe().width);
  peaks.gflops = flops_a_round / seconds * 1e-9;
  const int64_t l2 = std::max<int64_t>(cache_bytes(2), 256 << 10), l3 = last_level_cache_bytes();
  peaks.l1_gbytes_s = TRY(read_gbytes_s(16 << 10));
  peaks.l2_gbytes_s = TRY(read_gbytes_s(l2 / 2));
  peaks.l3_gbytes_s = l3 > l2 ? TRY(read_gbytes_s(std::min(l3 / 2, 4 * l2))) : peaks.l2_gbytes_s;
  peaks.memory_gbytes_s = TRY(read_gbytes_s(4 * l3));
  return peaks;
}

// Half of a level: the rest is needed by everything else, and a copy of a level below may count.
double bandwidth_for(const Peaks& peaks, int64_t bytes) {
  if (bytes <= cache_bytes(2) / 2 && peaks.l2_gbytes_s > 0) return peaks.l2_gbytes_s;
  if (bytes <= last_level_cache_bytes() / 2 && peaks.l3_gbytes_s > 0) return peaks.l3_gbytes_s;
  return peaks.memory_gbytes_s;
}

}  // namespace marathon
