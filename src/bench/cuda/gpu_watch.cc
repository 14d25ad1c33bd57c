#include "bench/cuda/gpu_watch.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <map>

#include "core/statistics.h"

namespace marathon {

namespace {

// 0: it is gone.
int64_t parent_of(int64_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text;
  std::getline(file, text);
  const size_t end_of_name = text.rfind(')');
  if (end_of_name == std::string::npos) return 0;
  return std::atoll(text.c_str() + std::min(text.size(), end_of_name + 4));
}

bool is_ours(int64_t pid) {
  while (pid > 1 && pid != ::getpid()) pid = parent_of(pid);
  return pid == ::getpid() || pid == 0;  // 0: who is gone by now is not told
}

// An idle GPU slows down by itself, and clocks that were asked for are no disturbance.
bool holds_clocks_down(const std::string& reason) {
  return reason != "idle" && reason != "application clocks" && reason != "display clocks";
}

std::string throttle_in_words(const std::vector<GpuReading>& readings) {
  std::map<std::string, int64_t> counts;
  for (const GpuReading& reading : readings) {
    for (const std::string& reason : reading.throttle) {
      if (holds_clocks_down(reason)) ++counts[reason];
    }
  }
  std::string text;
  for (const auto& [reason, count] : counts)
    text += fmt::format("{}{} in {}", text.empty() ? "" : ", ", reason, count);
  return text.empty() ? text : fmt::format("{} of {} readings", text, readings.size());
}

template <class Field>
std::vector<double> values_of(const std::vector<GpuReading>& readings, Field field) {
  std::vector<double> values;
  for (const GpuReading& reading : readings) {
    if (reading.*field) values.push_back(static_cast<double>(*(reading.*field)));
  }
  return values;
}

double largest(const std::vector<double>& values) {
  return values.empty() ? 0 : *std::max_element(values.begin(), values.end());
}
double smallest(const std::vector<double>& values) {
  return values.empty() ? 0 : *std::min_element(values.begin(), values.end());
}
double middle(const std::vector<double>& values) { return values.empty() ? 0 : median(values); }

}  // namespace

GpuWatch::GpuWatch(std::string uuid) : uuid_(std::move(uuid)), nvml_(Nvml::open()) {}

void GpuWatch::look() {
  readings_.push_back(nvml_.read(uuid_));
  if (readings_.back().compute_pids)
    others_ = std::max(others_, other_processes(*readings_.back().compute_pids));
}

GpuEvidence GpuWatch::evidence(const std::string& name) const {
  GpuEvidence evidence = evidence_of(readings_);
  evidence.name = name;
  evidence.uuid = uuid_;
  evidence.other_processes = others_;
  return evidence;
}

GpuEvidence evidence_of(const std::vector<GpuReading>& readings) {
  GpuEvidence evidence;
  evidence.readings = static_cast<int64_t>(readings.size());
  if (readings.empty()) return evidence;
  evidence.driver = readings.back().driver_version;
  evidence.missing = readings.back().missing;
  const std::vector<double> clocks = values_of(readings, &GpuReading::sm_clock_mhz),
                            power = values_of(readings, &GpuReading::power_w),
                            errors = values_of(readings, &GpuReading::ecc_errors);
  evidence.sm_clock_min_mhz = smallest(clocks);
  evidence.sm_clock_mhz = middle(clocks);
  evidence.sm_clock_max_mhz = largest(clocks);
  evidence.memory_clock_mhz = middle(values_of(readings, &GpuReading::memory_clock_mhz));
  evidence.power_w = middle(power);
  evidence.power_max_w = largest(power);
  evidence.temperature_max_c = largest(values_of(readings, &GpuReading::temperature_c));
  evidence.throttled = throttle_in_words(readings);
  evidence.ecc_errors = static_cast<int64_t>(largest(errors) - smallest(errors));
  return evidence;
}

int64_t other_processes(const std::vector<int64_t>& pids) {
  if (std::find(pids.begin(), pids.end(), ::getpid()) == pids.end()) return 0;
  return std::count_if(pids.begin(), pids.end(), [](int64_t pid) { return !is_ours(pid); });
}

}  // namespace marathon
