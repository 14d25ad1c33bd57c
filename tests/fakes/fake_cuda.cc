// The fake driver's way in: options, devices, contexts, errors, and the table of functions.
#include "fake_cuda.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string_view>

namespace marathon::fake {

namespace {

constexpr int driver_version = 12040, old_driver_version = 12020;
thread_local CUcontext current_context = nullptr;

// True when the word is "name=number".
template <class T>
bool number_of(const std::string& word, const char* name, T& number) {
  const std::string begin = std::string(name) + "=";
  if (!word.starts_with(begin)) return false;
  char* end = nullptr;
  number = static_cast<T>(std::strtod(word.c_str() + begin.size(), &end));
  return end != word.c_str() + begin.size() && *end == '\0';
}

bool read_word(const std::string& word, Options& options) {
  if (word == "no_device") return options.no_device = true;
  if (word == "old_driver") return options.old_driver = true;
  if (word == "shared") return options.shared = true;
  if (word.starts_with("only=")) return !(options.only = word.substr(5)).empty();
  if (std::sscanf(word.c_str(), "cc=%d.%d", &options.major, &options.minor) == 2) return true;
  return number_of(word, "oom_after", options.oom_after) ||
         number_of(word, "illegal_access_at", options.illegal_access_at) ||
         number_of(word, "hang_at", options.hang_at) || number_of(word, "ecc_at", options.ecc_at) ||
         number_of(word, "slow", options.slow) || number_of(word, "l2", options.l2_bytes);
}

Options without_faults(const Options& all) {
  Options options;
  options.l2_bytes = all.l2_bytes;
  return options;
}

bool is_on_the_command_line(const std::string& word) {
  std::ifstream file("/proc/self/cmdline");
  for (std::string one; std::getline(file, one, '\0');) {
    if (one == word) return true;
  }
  return false;
}

}  // namespace

Options read_options(const char* text) {
  Options options;
  const std::string all = text ? text : "";
  for (size_t at = 0; at < all.size();) {
    const size_t end = std::min(all.find(',', at), all.size());
    const std::string word = all.substr(at, end - at);
    if (!word.empty() && !read_word(word, options)) options.wrong = word;
    at = end + 1;
  }
  return options;
}

World& world() {
  // Never destroyed: other destructors at the process's end still call the driver.
  static World* const all = [] {
    World* made = new World;
    made->options = read_options(std::getenv("MARATHON_FAKE_CUDA"));
    if (!made->options.only.empty() && !is_on_the_command_line(made->options.only))
      made->options = without_faults(made->options);
    return made;
  }();
  return *all;
}

// ---- driver and device

CUresult cuInit(unsigned flags) {
  World& w = world();
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (!w.options.wrong.empty()) {
    std::fprintf(stderr, "fake CUDA: MARATHON_FAKE_CUDA has '%s'\n", w.options.wrong.c_str());
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (w.options.no_device) return CUDA_ERROR_NO_DEVICE;
  if (w.initialised && w.process != ::getpid()) return CUDA_ERROR_NOT_INITIALIZED;
  w.initialised = true;
  w.process = ::getpid();
  return CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int* version) {
  *version = world().options.old_driver ? old_driver_version : driver_version;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int* count) {
  *count = 1;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  if (ordinal != 0) return CUDA_ERROR_INVALID_DEVICE;
  *device = 0;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char* name, int length, CUdevice device) {
  if (device != 0 || length < 1) return CUDA_ERROR_INVALID_DEVICE;
  std::snprintf(name, static_cast<size_t>(length), "Fake H200");
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
  if (device != 0) return CUDA_ERROR_INVALID_DEVICE;
  for (int i = 0; i < 16; ++i) uuid->bytes[i] = static_cast<char>(0xfa + 17 * i);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute which, CUdevice device) {
  if (device != 0) return CUDA_ERROR_INVALID_DEVICE;
  switch (which) {
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
      *value = static_cast<int>(clock_khz);
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      *value = static_cast<int>(multiprocessors);
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
      *value = static_cast<int>(world().options.l2_bytes);
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      *value = world().options.major;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      *value = world().options.minor;
      return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDeviceTotalMem(size_t* bytes, CUdevice device) {
  if (device != 0) return CUDA_ERROR_INVALID_DEVICE;
  *bytes = static_cast<size_t>(total_memory_bytes);
  return CUDA_SUCCESS;
}

// ---- contexts

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  if (device != 0) return CUDA_ERROR_INVALID_DEVICE;
  world().context.references += 1;
  *context = &world().context;
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
  if (device != 0) return CUDA_ERROR_INVALID_DEVICE;
  if (world().context.references == 0) return CUDA_ERROR_INVALID_CONTEXT;
  world().context.references -= 1;
  return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context) {
  if (context && (context != &world().context || context->references == 0))
    return CUDA_ERROR_INVALID_CONTEXT;
  current_context = context;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext* context) {
  *context = current_context;
  return CUDA_SUCCESS;
}

CUresult cuCtxResetPersistingL2Cache() { return CUDA_SUCCESS; }

CUresult cuProfilerStart() { return CUDA_SUCCESS; }

CUresult cuProfilerStop() { return CUDA_SUCCESS; }

CUresult cuCtxSetLimit(CUlimit limit, size_t) {
  switch (limit) {
    case CU_LIMIT_STACK_SIZE:
    case CU_LIMIT_PRINTF_FIFO_SIZE:
    case CU_LIMIT_MALLOC_HEAP_SIZE:
    case CU_LIMIT_PERSISTING_L2_CACHE_SIZE:
      return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

// ---- errors

namespace {

struct ErrorText {
  CUresult code;
  const char *name, *text;
};
#define MARATHON_ERROR(code, text) \
  { code, #code, text }
constexpr ErrorText error_texts[] = {
    MARATHON_ERROR(CUDA_SUCCESS, "no error"),
    MARATHON_ERROR(CUDA_ERROR_INVALID_VALUE, "invalid argument"),
    MARATHON_ERROR(CUDA_ERROR_OUT_OF_MEMORY, "out of memory"),
    MARATHON_ERROR(CUDA_ERROR_NOT_INITIALIZED, "initialization error"),
    MARATHON_ERROR(CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected"),
    MARATHON_ERROR(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal"),
    MARATHON_ERROR(CUDA_ERROR_INVALID_IMAGE, "device kernel image is invalid"),
    MARATHON_ERROR(CUDA_ERROR_INVALID_CONTEXT, "invalid device context"),
    MARATHON_ERROR(CUDA_ERROR_ECC_UNCORRECTABLE, "uncorrectable ECC error encountered"),
    MARATHON_ERROR(CUDA_ERROR_INVALID_HANDLE, "invalid resource handle"),
    MARATHON_ERROR(CUDA_ERROR_ILLEGAL_STATE, "the operation cannot be performed in this state"),
    MARATHON_ERROR(CUDA_ERROR_NOT_FOUND, "named symbol not found"),
    MARATHON_ERROR(CUDA_ERROR_NOT_READY, "device not ready"),
    MARATHON_ERROR(CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered"),
    MARATHON_ERROR(CUDA_ERROR_NOT_SUPPORTED, "operation not supported"),
    MARATHON_ERROR(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                   "operation not permitted when stream is capturing"),
    MARATHON_ERROR(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
                   "operation failed due to a previous error during capture"),
    MARATHON_ERROR(CUDA_ERROR_STREAM_CAPTURE_MERGE, "dependency would merge two separate captures"),
    MARATHON_ERROR(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED,
                   "capture was not ended in the same stream as it began"),
    MARATHON_ERROR(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "capturing stream has unjoined work"),
    MARATHON_ERROR(CUDA_ERROR_STREAM_CAPTURE_ISOLATION,
                   "dependency created on uncaptured work in another stream"),
    MARATHON_ERROR(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
                   "operation would make the legacy stream depend on a capturing blocking stream"),
    MARATHON_ERROR(CUDA_ERROR_CAPTURED_EVENT,
                   "operation not permitted on an event last recorded in a capturing stream"),
    MARATHON_ERROR(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD,
                   "attempt to terminate a thread-local capture sequence from another thread"),
};
#undef MARATHON_ERROR

const ErrorText* find_error(CUresult code) {
  for (const ErrorText& error : error_texts) {
    if (error.code == code) return &error;
  }
  return nullptr;
}

}  // namespace

CUresult cuGetErrorName(CUresult error, const char** name) {
  const ErrorText* found = find_error(error);
  *name = found ? found->name : nullptr;
  return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult error, const char** text) {
  const ErrorText* found = find_error(error);
  *text = found ? found->text : nullptr;
  return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// ---- the table

namespace {

enum class Needs { nothing, driver, context };

constexpr Needs needs_of(std::string_view name) {
  for (const std::string_view free :
       {"cuInit", "cuDriverGetVersion", "cuGetErrorName", "cuGetErrorString"}) {
    if (name == free) return Needs::nothing;
  }
  if (name.starts_with("cuDevice") || name == "cuCtxSetCurrent" || name == "cuCtxGetCurrent" ||
      name == "cuMemGetAllocationGranularity")
    return Needs::driver;
  return Needs::context;
}

// What every call asks before it does its work, in one place.
CUresult check_needs(Needs needs) {
  const World& w = world();
  if (needs == Needs::nothing) return CUDA_SUCCESS;
  if (!w.initialised || w.process != ::getpid()) return CUDA_ERROR_NOT_INITIALIZED;
  if (needs == Needs::driver) return CUDA_SUCCESS;
  if (!current_context) return CUDA_ERROR_INVALID_CONTEXT;
  return w.lost;
}

template <Needs needs, auto function, class Type = decltype(function)>
struct Door;
template <Needs needs, auto function, class... Arguments>
struct Door<needs, function, CUresult (*)(Arguments...)> {
  static CUresult call(Arguments... arguments) {
    const std::lock_guard lock(world().mutex);
    if (const CUresult refused = check_needs(needs); refused != CUDA_SUCCESS) return refused;
    return function(arguments...);
  }
};

struct Entry {
  const char* name;
  void* function;
};

std::vector<Entry> make_table() {
  std::vector<Entry> table;
#define MARATHON_FAKE_ENTRY(name, arguments) \
  table.push_back({#name, reinterpret_cast<void*>(&Door<needs_of(#name), &fake::name>::call)});
  MARATHON_CUDA_FUNCTIONS(MARATHON_FAKE_ENTRY)
#undef MARATHON_FAKE_ENTRY
  return table;
}

bool is_younger_than_old_driver(std::string_view name) {
  return name == "cuFuncGetName" || name == "cuKernelGetName" || name == "cuFuncGetParamInfo" ||
         name == "cuModuleGetFunctionCount";
}

}  // namespace

}  // namespace marathon::fake

extern "C" __attribute__((visibility("default"))) marathon::cuda::CUresult cuGetProcAddress_v2(
    const char* name, void** function, int version, uint64_t /*flags*/, int* status) {
  using namespace marathon;
  constexpr int found = 0, not_found = 1, version_not_sufficient = 2;
  static const std::vector<fake::Entry> table = fake::make_table();
  *function = nullptr;
  int how = not_found;
  for (const fake::Entry& entry : table) {
    if (std::strcmp(entry.name, name) != 0) continue;
    // Older functions of these names have other arguments, and nobody may get them from here.
    const bool fits = version >= fake::driver_version &&
                      !(fake::world().options.old_driver && fake::is_younger_than_old_driver(name));
    how = fits ? found : version_not_sufficient;
    if (fits) *function = entry.function;
  }
  if (status) *status = how;
  return how == found ? cuda::CUDA_SUCCESS : cuda::CUDA_ERROR_NOT_FOUND;
}
