// What the machine says about a GPU beside CUDA: clocks, heat, power, who else computes there. By
// dlopen of libnvidia-ml.so.1, or of the library that $MARATHON_NVML names. Nothing here is needed
// to judge: what cannot be read is absent, with a reason.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace marathon {

struct GpuReading {
  // Why a field below is absent; empty: all could be read.
  std::string missing;
  std::optional<int64_t> sm_clock_mhz, memory_clock_mhz, temperature_c;
  std::optional<double> power_w;
  // NVML's mask of what holds the clocks down at this moment, and the same in words.
  std::optional<uint64_t> throttle_mask;
  std::vector<std::string> throttle;
  std::optional<int64_t> ecc_errors;  // uncorrected, since the driver was loaded
  std::string driver_version;         // 580.159.03
  // As the driver numbers processes: in a container these may be pids of the host, or none.
  std::optional<std::vector<int64_t>> compute_pids;
};

// The words of a mask, in the order of its bits; a bit that has no name is written as a number.
std::vector<std::string> throttle_words(uint64_t mask);

class Nvml {
 public:
  // Never fails: without the library every reading is empty and says why.
  static Nvml open();
  Nvml(Nvml&& other) noexcept;
  Nvml& operator=(Nvml&&) = delete;
  ~Nvml();

  // `uuid` as open_gpu gives it: GPU-xxxxxxxx-….
  GpuReading read(const std::string& uuid) const;

 private:
  Nvml() = default;
  struct Functions;
  const Functions* functions_ = nullptr;  // lives as long as the library: for ever
  std::string missing_;
};

// Whether other processes may share the GPU's multiprocessors through NVIDIA's MPS, so that a
// figure may hold their work: $CUDA_MPS_PIPE_DIRECTORY is set, or a control daemon has its pipe at
// the usual place.
bool mps_in_use();

}  // namespace marathon
