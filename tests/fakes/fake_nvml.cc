// An NVML of one GPU, the fake CUDA driver's. MARATHON_FAKE_NVML: no_power (it cannot be read),
// no_start (nvmlInit fails).
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

constexpr const char* uuid = "GPU-fa0b1c2d-3e4f-6071-8293-a4b5c6d7e8f9";
constexpr int success = 0, not_supported = 3, not_found = 6, insufficient_size = 7, not_loaded = 9;
constexpr unsigned pids[] = {4242, 4343};

bool is_asked(const char* word) {
  const char* text = std::getenv("MARATHON_FAKE_NVML");
  return text && std::strcmp(text, word) == 0;
}

struct ProcessInfo {
  unsigned pid;
  unsigned long long used_bytes;
  unsigned gpu_instance, compute_instance;
};

}  // namespace

#define MARATHON_EXPORT extern "C" __attribute__((visibility("default")))

MARATHON_EXPORT int nvmlInit_v2() { return is_asked("no_start") ? not_loaded : success; }
MARATHON_EXPORT int nvmlShutdown() { return success; }

MARATHON_EXPORT const char* nvmlErrorString(int code) {
  switch (code) {
    case not_supported:
      return "Not Supported";
    case not_found:
      return "Not Found";
    case not_loaded:
      return "Driver Not Loaded";
    default:
      return "Unknown Error";
  }
}

MARATHON_EXPORT int nvmlSystemGetDriverVersion(char* version, unsigned length) {
  std::snprintf(version, length, "550.0.1");
  return success;
}

MARATHON_EXPORT int nvmlDeviceGetHandleByUUID(const char* wanted, void** device) {
  *device = nullptr;
  return std::strcmp(wanted, uuid) == 0 ? success : not_found;
}

MARATHON_EXPORT int nvmlDeviceGetClockInfo(void*, int kind, unsigned* mhz) {
  *mhz = kind == 1 ? 1980 : 3201;
  return success;
}

MARATHON_EXPORT int nvmlDeviceGetTemperature(void*, int, unsigned* celsius) {
  *celsius = 41;
  return success;
}

MARATHON_EXPORT int nvmlDeviceGetPowerUsage(void*, unsigned* milliwatts) {
  *milliwatts = 350'500;
  return is_asked("no_power") ? not_supported : success;
}

// The older of the two names that the library has had for it.
MARATHON_EXPORT int nvmlDeviceGetCurrentClocksThrottleReasons(void*, unsigned long long* mask) {
  *mask = 0x4 | 0x20;
  return success;
}

MARATHON_EXPORT int nvmlDeviceGetTotalEccErrors(void*, int type, int, unsigned long long* errors) {
  *errors = type == 1 ? 2 : 30;
  return success;
}

MARATHON_EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(void*, unsigned* count, void* infos) {
  constexpr unsigned running = sizeof pids / sizeof pids[0];
  const bool fits = infos && *count >= running;
  *count = running;
  if (!fits) return insufficient_size;
  for (unsigned i = 0; i < running; ++i)
    static_cast<ProcessInfo*>(infos)[i] = {pids[i], 1 << 20, ~0u, ~0u};
  return success;
}
