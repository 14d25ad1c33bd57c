#include "bench/cuda/nvml.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>

namespace marathon {

namespace {

// The part of nvml.h that is used.
using Device = void*;
constexpr int nvml_success = 0, nvml_insufficient_size = 7;
constexpr int clock_sm = 1, clock_memory = 2, sensor_gpu = 0;
constexpr int ecc_uncorrected = 1, ecc_since_load = 0;

struct ProcessInfo {  // as of nvmlDeviceGetComputeRunningProcesses_v3
  unsigned pid;
  unsigned long long used_bytes;
  unsigned gpu_instance, compute_instance;
};
static_assert(sizeof(ProcessInfo) == 24);

// More than ever run at a time; the list grows while it is read.
constexpr unsigned spare_processes = 8;

std::string library_name() {
  const char* own = std::getenv("MARATHON_NVML");
  return own && *own ? own : "libnvidia-ml.so.1";
}

constexpr std::pair<uint64_t, const char*> reasons[] = {
    {0x1, "idle"},
    {0x2, "application clocks"},
    {0x4, "power cap"},
    {0x8, "hardware slowdown"},
    {0x10, "sync boost"},
    {0x20, "software thermal slowdown"},
    {0x40, "hardware thermal slowdown"},
    {0x80, "power brake"},
    {0x100, "display clocks"},
};

}  // namespace

struct Nvml::Functions {
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  const char* (*error)(int) = nullptr;
  int (*driver_version)(char*, unsigned) = nullptr;
  int (*by_uuid)(const char*, Device*) = nullptr;
  int (*clock)(Device, int, unsigned*) = nullptr;
  int (*temperature)(Device, int, unsigned*) = nullptr;
  int (*power)(Device, unsigned*) = nullptr;
  int (*throttle)(Device, unsigned long long*) = nullptr;
  int (*ecc)(Device, int, int, unsigned long long*) = nullptr;
  int (*processes)(Device, unsigned*, void*) = nullptr;  // an array of ProcessInfo

  std::string words(int code) const {
    const char* text = error ? error(code) : nullptr;
    return text ? text : fmt::format("error {}", code);
  }
};

std::vector<std::string> throttle_words(uint64_t mask) {
  std::vector<std::string> words;
  for (const auto& [bit, word] : reasons) {
    if (mask & bit) words.emplace_back(word);
    mask &= ~bit;
  }
  if (mask != 0) words.push_back(fmt::format("{:#x}", mask));
  return words;
}

Nvml Nvml::open() {
  Nvml nvml;
  void* library = ::dlopen(library_name().c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    nvml.missing_ = fmt::format("no NVML here ({})", ::dlerror());
    return nvml;
  }
  static Functions functions;
  // Each by itself: an old library lacks the young ones, and the rest is worth having.
  const auto find = [&](auto& function, const char* name) {
    function =
        reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
  };
  find(functions.init, "nvmlInit_v2");
  find(functions.shutdown, "nvmlShutdown");
  find(functions.error, "nvmlErrorString");
  find(functions.driver_version, "nvmlSystemGetDriverVersion");
  find(functions.by_uuid, "nvmlDeviceGetHandleByUUID");
  find(functions.clock, "nvmlDeviceGetClockInfo");
  find(functions.temperature, "nvmlDeviceGetTemperature");
  find(functions.power, "nvmlDeviceGetPowerUsage");
  find(functions.throttle, "nvmlDeviceGetCurrentClocksEventReasons");
  if (!functions.throttle) find(functions.throttle, "nvmlDeviceGetCurrentClocksThrottleReasons");
  find(functions.ecc, "nvmlDeviceGetTotalEccErrors");
  find(functions.processes, "nvmlDeviceGetComputeRunningProcesses_v3");
  if (!functions.init || !functions.shutdown || !functions.by_uuid) {
    nvml.missing_ = fmt::format("{} is no NVML that is known here", library_name());
    return nvml;
  }
  if (const int code = functions.init(); code != nvml_success) {
    nvml.missing_ = "NVML does not start: " + functions.words(code);
    return nvml;
  }
  nvml.functions_ = &functions;
  return nvml;
}

Nvml::Nvml(Nvml&& other) noexcept
    : functions_(std::exchange(other.functions_, nullptr)), missing_(std::move(other.missing_)) {}

Nvml::~Nvml() {
  if (functions_) functions_->shutdown();
}

GpuReading Nvml::read(const std::string& uuid) const {
  GpuReading reading;
  if (!functions_) {
    reading.missing = missing_;
    return reading;
  }
  const Functions& f = *functions_;
  std::vector<std::string> missing;
  const auto got = [&](const char* what, int code) {
    if (code != nvml_success) missing.push_back(fmt::format("{}: {}", what, f.words(code)));
    return code == nvml_success;
  };
  // Calls only what the library has. False: absent, and noted.
  const auto call = [&](const char* what, auto function, auto... arguments) {
    if (function) return got(what, function(arguments...));
    missing.push_back(fmt::format("{}: this NVML cannot tell", what));
    return false;
  };

  char version[96] = {};
  if (call("driver version", f.driver_version, version, unsigned{sizeof version - 1}))
    reading.driver_version = version;
  Device device = nullptr;
  if (!got(uuid.c_str(), f.by_uuid(uuid.c_str(), &device))) {
    reading.missing = fmt::format("{}", fmt::join(missing, "; "));
    return reading;
  }
  unsigned value = 0;
  if (call("SM clock", f.clock, device, clock_sm, &value)) reading.sm_clock_mhz = value;
  if (call("memory clock", f.clock, device, clock_memory, &value)) reading.memory_clock_mhz = value;
  if (call("temperature", f.temperature, device, sensor_gpu, &value)) reading.temperature_c = value;
  if (call("power", f.power, device, &value)) reading.power_w = 1e-3 * value;
  unsigned long long mask = 0;
  if (call("throttling", f.throttle, device, &mask)) {
    reading.throttle_mask = mask;
    reading.throttle = throttle_words(mask);
  }
  unsigned long long errors = 0;
  if (call("ECC errors", f.ecc, device, ecc_uncorrected, ecc_since_load, &errors))
    reading.ecc_errors = static_cast<int64_t>(errors);
  unsigned count = 0;
  if (f.processes && f.processes(device, &count, nullptr) == nvml_insufficient_size)
    count += spare_processes;
  std::vector<ProcessInfo> processes(count);
  if (call("processes", f.processes, device, &count, static_cast<void*>(processes.data()))) {
    reading.compute_pids.emplace();
    for (unsigned i = 0; i < count && i < processes.size(); ++i)
      reading.compute_pids->push_back(processes[i].pid);
  }
  reading.missing = fmt::format("{}", fmt::join(missing, "; "));
  return reading;
}

bool mps_in_use() {
  const char* pipes = std::getenv("CUDA_MPS_PIPE_DIRECTORY");
  return (pipes && *pipes) || ::access("/tmp/nvidia-mps/control", F_OK) == 0;
}

}  // namespace marathon
