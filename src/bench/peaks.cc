#include "bench/peaks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <fstream>
#include <functional>
#include <vector>

namespace marathon {

namespace {

typedef float Lanes __attribute__((vector_size(64)));

// Twelve independent chains hide the latency of a multiply-add (4 cycles, two a cycle, and spare).
#define EACH_CHAIN(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)
__attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default"), noinline)) void
multiply_adds(int64_t rounds, float* out) {
#define DECLARE(i) \
  Lanes c##i = {}; \
  c##i += static_cast<float>(i + 1);
#define STEP(i) c##i = c##i * scale + shift;
#define KEEP(i) total += c##i;
  EACH_CHAIN(DECLARE)
  Lanes scale = {}, shift = {}, total = {};
  scale += 0.999f;
  shift += 0.001f;
  for (int64_t r = 0; r < rounds; ++r) {
    EACH_CHAIN(STEP)
  }
  EACH_CHAIN(KEEP)
  for (int lane = 0; lane < 16; ++lane) out[lane] = total[lane];
}
constexpr double flops_a_round = 12 * 16 * 2;

__attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default"), noinline)) float
read_all(const float* data, int64_t count, int64_t passes) {
  Lanes sums[8] = {};
  for (int64_t pass = 0; pass < passes; ++pass) {
    for (int64_t i = 0; i + 128 <= count; i += 128) {
      for (int lane = 0; lane < 8; ++lane)
        sums[lane] += *reinterpret_cast<const Lanes*>(data + i + 16 * lane);
    }
    asm volatile("" ::: "memory");  // the next pass reads again
  }
  float total = 0;
  for (int lane = 0; lane < 8; ++lane) total += sums[lane][0] + sums[lane][15];
  return total;
}

volatile float sink = 0;

double seconds_of(const std::function<void(int64_t)>& work, int64_t amount) {
  // CPU time, not the wall: on a busy machine a probe by the wall gives peaks that honest kernels
  // exceed.
  timespec start{}, end{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &start);
  work(amount);
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
  return static_cast<double>(end.tv_sec - start.tv_sec) +
         1e-9 * static_cast<double>(end.tv_nsec - start.tv_nsec);
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
  const double seconds =
      TRY(unit_seconds([&](int64_t passes) { sink = sink + read_all(data, count, passes); }, 1));
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
  float out[16];
  const double seconds = TRY(unit_seconds(
      [&](int64_t rounds) {
        multiply_adds(rounds, out);
        sink = sink + out[3];
      },
      1 << 16));
  peaks.gflops = flops_a_round / seconds * 1e-9;
  const int64_t l2 = std::max<int64_t>(cache_bytes(2), 256 << 10), l3 = last_level_cache_bytes();
  peaks.l1_gbytes_s = TRY(read_gbytes_s(16 << 10));
  peaks.l2_gbytes_s = TRY(read_gbytes_s(l2 / 2));
  peaks.l3_gbytes_s = l3 > l2 ? TRY(read_gbytes_s(std::min(l3 / 2, 4 * l2))) : peaks.l2_gbytes_s;
  peaks.memory_gbytes_s = TRY(read_gbytes_s(4 * l3));
  return peaks;
}

double bandwidth_for(const Peaks& peaks, int64_t bytes) {
  return bytes <= last_level_cache_bytes() / 2 ? peaks.l3_gbytes_s : peaks.memory_gbytes_s;
}

}  // namespace marathon
