#include "bench/floor.h"

#include <algorithm>
#include <fstream>
#include <string>

#include "bench/peaks.h"

namespace marathon {

namespace {

constexpr double beyond_the_chip = 1.15;  // below the peaks by this factor is not believed

double bytes_from_memory(const ShapePlan& plan) {
  double outputs = 0;
  for (size_t i = 0; i < plan.sizes.is_output.size(); ++i) {
    if (plan.sizes.is_output[i]) outputs += static_cast<double>(plan.sizes.tensor_bytes[i]);
  }
  const double inputs = plan.touched_bytes() - outputs;
  return inputs + std::max(0.0, outputs - static_cast<double>(last_level_cache_bytes()));
}

// Dot products of 16-bit numbers do more than one fp32 multiply-add in a lane: 2 with AVX-512 BF16
// or VNNI, 16 and more in AMX tiles.
double low_precision_gain(const Task& task) {
  const bool sixteen_bits =
      std::any_of(task.tensors.begin(), task.tensors.end(), [](const Tensor& tensor) {
        return tensor.dtype == DType::bf16 || tensor.dtype == DType::fp16;
      });
  if (!sixteen_bits) return 1;
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    if (!line.starts_with("flags")) continue;
    return line.find("amx_bf16") != std::string::npos ? 32 : 2;
  }
  return 2;
}

}  // namespace

Result<FloorTimes> floor_of(const Task& task, const ShapePlan& plan, const Peaks& peaks,
                            CacheState cache) {
  const Expression::Lookup lookup = [&](std::string_view name) -> std::optional<int64_t> {
    const auto found = plan.shape->dims.find(std::string(name));
    return found == plan.shape->dims.end() ? std::nullopt : std::optional<int64_t>(found->second);
  };
  FloorTimes times;
  if (peaks.gflops <= 0 || peaks.memory_gbytes_s <= 0) return times;
  double flops = 0;
  if (task.floor.flops) flops = static_cast<double>(TRY(task.floor.flops->evaluate(lookup)));
  double bytes = cache == CacheState::cold ? bytes_from_memory(plan) : plan.touched_bytes();
  if (task.floor.bytes) bytes = static_cast<double>(TRY(task.floor.bytes->evaluate(lookup)));
  const double footprint = plan.touched_bytes() * plan.sets;
  const double bandwidth = cache == CacheState::cold
                               ? peaks.memory_gbytes_s
                               : bandwidth_for(peaks, static_cast<int64_t>(footprint));
  const double arithmetic_us = flops / peaks.gflops * 1e-3;
  const double memory_us = bytes / bandwidth * 1e-3;
  times.floor_us = std::max(arithmetic_us, memory_us);
  times.by_memory = memory_us > arithmetic_us;
  // The fastest that any cache could do: where data stand is the machine's affair, and a virtual
  // machine may have more last-level cache than it says.
  const double fastest = cache == CacheState::cold ? peaks.l3_gbytes_s : peaks.l1_gbytes_s;
  const double least_memory_us =
      fastest > 0 ? bytes / std::max(fastest, peaks.memory_gbytes_s) * 1e-3 : 0;
  times.impossible_us =
      std::max(arithmetic_us / low_precision_gain(task), least_memory_us) / beyond_the_chip;
  return times;
}

}  // namespace marathon
