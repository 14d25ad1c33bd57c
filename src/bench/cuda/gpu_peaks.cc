#include "bench/cuda/gpu_peaks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/file.h"
#include "bench/cuda/gpu_session.h"

namespace marathon {

using namespace cuda;

namespace {

constexpr int64_t copied_bytes = 2LL << 30, max_image_bytes = 64LL << 20;
constexpr double flops_a_step = 2.0 * 64 * 256 * 16 * 2;  // of the two groups of a multiprocessor
constexpr double sustained_s = 0.25;
constexpr int attempts = 5;

class Prober {
 public:
  Prober(const Gpu& gpu, const JudgeKernels& kernels) : gpu_(gpu), kernels_(kernels) {}
  ~Prober() {
    if (stream_) gpu_.driver->cuStreamDestroy(stream_);
    if (begin_) gpu_.driver->cuEventDestroy(begin_);
    if (end_) gpu_.driver->cuEventDestroy(end_);
  }
  Prober(const Prober&) = delete;
  Prober& operator=(const Prober&) = delete;

  Status open() {
    const Driver& driver = *gpu_.driver;
    TRY(driver.ok(driver.cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING), "make a stream"));
    TRY(driver.ok(driver.cuEventCreate(&begin_, CU_EVENT_DEFAULT), "make an event"));
    return driver.ok(driver.cuEventCreate(&end_, CU_EVENT_DEFAULT), "make an event");
  }

  // GB/s of a copy, bytes read plus written.
  Result<double> copy() {
    const DeviceMemory from = TRY(DeviceMemory::make(gpu_, copied_bytes));
    const DeviceMemory to = TRY(DeviceMemory::make(gpu_, copied_bytes));
    const auto seconds = [&](int64_t bytes) {
      return time([&] { return kernels_.copy(from.address(), to.address(), bytes, stream_); });
    };
    const double s = TRY(doubled(seconds, copied_bytes / 2));
    return 2e-9 * static_cast<double>(copied_bytes) / s;
  }

  // GFLOP/s of the tensor cores.
  Result<double> matmul() {
    const DeviceMemory sink = TRY(DeviceMemory::make(gpu_, 64));
    const auto seconds = [&](int64_t steps) {
      return time([&] { return kernels_.matmul(steps, 7, sink.address(), stream_); });
    };
    // As long as clocks take to settle under that load.
    const double probe_s = TRY(seconds(1 << 14));
    const int64_t steps = std::max<int64_t>(
        4, static_cast<int64_t>(sustained_s / std::max(probe_s, 1e-6) * (1 << 14)) / 4 * 4);
    const double s = TRY(doubled(seconds, steps));
    return 1e-9 * flops_a_step * static_cast<double>(gpu_.multiprocessors) *
           static_cast<double>(2 * steps) / s;
  }

 private:
  Result<double> time(const std::function<Status()>& work) {
    const Driver& driver = *gpu_.driver;
    TRY(driver.ok(driver.cuEventRecord(begin_, stream_), "record an event"));
    TRY(work());
    TRY(driver.ok(driver.cuEventRecord(end_, stream_), "record an event"));
    TRY(driver.ok(driver.cuStreamSynchronize(stream_), "wait for a probe"));
    float ms = 0;
    TRY(driver.ok(driver.cuEventElapsedTime(&ms, begin_, end_), "read the events"));
    return 1e-3 * static_cast<double>(ms);
  }

  // Seconds of twice the work, the fastest of those that took twice the time of once.
  Result<double> doubled(const std::function<Result<double>(int64_t)>& seconds, int64_t work) {
    double best = 0, ratio = 0;
    (void)TRY(seconds(work));
    for (int i = 0; i < attempts; ++i) {
      const double once = TRY(seconds(work)), twice = TRY(seconds(2 * work));
      ratio = twice / once;
      if (std::abs(ratio - 2) < 0.2 && (best == 0 || twice < best)) best = twice;
    }
    if (best > 0) return best;
    return fail(Fault::retry, fmt::format("twice the work took {:.2f} times the time: something else "
                                          "uses this GPU, or its clocks move; again when it is idle",
                                          ratio));
  }

  const Gpu& gpu_;
  const JudgeKernels& kernels_;
  CUstream stream_ = nullptr;
  CUevent begin_ = nullptr, end_ = nullptr;
};

}  // namespace

Result<Peaks> measure_gpu_peaks(const BenchRequest& request) {
  const Gpu gpu = TRY(open_judging_gpu(static_cast<int>(request.gpu)));
  const JudgeKernels kernels =
      TRY(JudgeKernels::load(gpu, TRY(read_file(request.judge_cubin, max_image_bytes))));
  Prober prober(gpu, kernels);
  TRY(prober.open());
  Peaks peaks;
  peaks.memory_gbytes_s = TRY(prober.copy());
  peaks.gflops = TRY(prober.matmul());
  return peaks;
}

}  // namespace marathon
