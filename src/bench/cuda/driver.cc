#include "bench/cuda/driver.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <string>

namespace marathon::cuda {

namespace {

// dlsym("cuMemAlloc") and friends give the ABI of 2009: everything but the way in goes through
// cuGetProcAddress, which is told the version that abi.h was written for.
constexpr int abi_version = 12040;
using GetProcAddress = CUresult (*)(const char* name, void** function, int version, uint64_t flags,
                                    int* status);

constexpr std::string_view newer_driver = "install driver 550 (CUDA 12.4) or newer";

std::string driver_name() {
  const char* own = std::getenv("MARATHON_CUDA_DRIVER");
  return own && *own ? own : "libcuda.so.1";
}

Result<GetProcAddress> open_library(const std::string& name) {
  void* library = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return fail(Fault::not_found,
                fmt::format("no NVIDIA driver here ({}): install it, or judge on a machine with a "
                            "GPU (marathon judge --request … --result …)",
                            ::dlerror()));
  auto get = reinterpret_cast<GetProcAddress>(::dlsym(library, "cuGetProcAddress_v2"));
  if (!get)
    return fail(Fault::invalid, fmt::format("{} is older than CUDA 12: {}", name, newer_driver));
  return get;
}

// Before any other call: an older driver answers cuGetProcAddress with functions of the same name
// that take other arguments (cuGraphGetEdges before 12.3).
Status check_version(const Driver& driver) {
  int version = 0;
  TRY(driver.ok(driver.cuDriverGetVersion(&version), "ask the NVIDIA driver's version"));
  if (version >= abi_version) return {};
  return fail(Fault::invalid, fmt::format("this NVIDIA driver is for CUDA {}.{}, too old: {}",
                                          version / 1000, version % 1000 / 10, newer_driver));
}

Status check_devices(const Driver& driver) {
  const CUresult started = driver.cuInit(0);
  if (started == CUDA_ERROR_NO_DEVICE)
    return fail(Fault::not_found, "the NVIDIA driver sees no GPU: look at nvidia-smi and "
                                  "CUDA_VISIBLE_DEVICES");
  TRY(driver.ok(started, "start the NVIDIA driver"));
  int count = 0;
  TRY(driver.ok(driver.cuDeviceGetCount(&count), "count the GPUs"));
  if (count > 0) return {};
  return fail(Fault::not_found, "the NVIDIA driver sees no GPU: look at nvidia-smi and "
                                "CUDA_VISIBLE_DEVICES");
}

Result<Driver> load_functions() {
  const std::string name = driver_name();
  const GetProcAddress get = TRY(open_library(name));
  Driver driver;
  std::string missing;
  const auto find = [&](const char* function, void** address) {
    int status = 0;
    if (get(function, address, abi_version, CU_GET_PROC_ADDRESS_DEFAULT, &status) != CUDA_SUCCESS ||
        !*address)
      missing += (missing.empty() ? "" : ", ") + std::string(function);
  };
#define MARATHON_CUDA_FIND(function, arguments) \
  find(#function, reinterpret_cast<void**>(&driver.function));
  MARATHON_CUDA_FUNCTIONS(MARATHON_CUDA_FIND)
#undef MARATHON_CUDA_FIND
  if (driver.cuDriverGetVersion && driver.cuGetErrorName && driver.cuGetErrorString)
    TRY(check_version(driver));
  if (!missing.empty())
    return fail(Fault::invalid,
                fmt::format("this NVIDIA driver lacks {}: {}", missing, newer_driver));
  TRY(check_devices(driver));
  return driver;
}

std::string words_of(const Driver& driver, CUresult result) {
  const char *name = nullptr, *text = nullptr;
  driver.cuGetErrorName(result, &name);
  driver.cuGetErrorString(result, &text);
  return fmt::format("{} ({})", name ? name : std::to_string(result), text ? text : "no text");
}

}  // namespace

Result<const Driver*> Driver::load() {
  static const Result<Driver> loaded = load_functions();
  if (!loaded) return tl::unexpected(loaded.error());
  return &*loaded;
}

Status Driver::ok(CUresult result, std::string_view doing) const {
  if (result == CUDA_SUCCESS) return {};
  const Fault fault = result == CUDA_ERROR_OUT_OF_MEMORY ? Fault::no_space
                      : is_sticky(result)                ? Fault::retry
                                                         : Fault::system;
  return fail(fault, fmt::format("could not {}: {}", doing, words_of(*this, result)));
}

bool is_sticky(CUresult result) {
  switch (result) {
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_CONTAINED:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_TENSOR_MEMORY_LEAK:
    case CUDA_ERROR_MPS_CLIENT_TERMINATED:
    case CUDA_ERROR_EXTERNAL_DEVICE:
      return true;
    default:
      return false;
  }
}

}  // namespace marathon::cuda
