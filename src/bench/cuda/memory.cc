#include "bench/cuda/memory.h"

#include <fmt/format.h>

#include <utility>

namespace marathon {

using namespace cuda;

namespace {

constexpr int64_t judging_capability = 90;  // judge_kernels.cu has instructions of Hopper alone

std::string uuid_text(const CUuuid& uuid) {
  std::string text = "GPU-";
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", static_cast<uint8_t>(uuid.bytes[i]));
  }
  return text;
}

CUmemAllocationProp properties_of(const Gpu& gpu) {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = gpu.device;
  return properties;
}

Result<int64_t> attribute(const Driver& driver, CUdevice_attribute which, CUdevice device) {
  int value = 0;
  TRY(driver.ok(driver.cuDeviceGetAttribute(&value, which, device), "read a device attribute"));
  return int64_t{value};
}

}  // namespace

Result<Gpu> open_gpu(int ordinal) {
  Gpu gpu;
  gpu.driver = TRY(Driver::load());
  const Driver& driver = *gpu.driver;
  TRY(driver.ok(driver.cuDeviceGet(&gpu.device, ordinal), fmt::format("open GPU {}", ordinal)));
  char name[256] = {};
  TRY(driver.ok(driver.cuDeviceGetName(name, sizeof name - 1, gpu.device), "name the GPU"));
  gpu.name = name;
  CUuuid uuid = {};
  TRY(driver.ok(driver.cuDeviceGetUuid(&uuid, gpu.device), "identify the GPU"));
  gpu.uuid = uuid_text(uuid);
  gpu.compute_capability =
      TRY(attribute(driver, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, gpu.device)) * 10 +
      TRY(attribute(driver, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, gpu.device));
  gpu.multiprocessors =
      TRY(attribute(driver, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, gpu.device));
  gpu.l2_bytes = TRY(attribute(driver, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, gpu.device));
  gpu.max_clock_khz = TRY(attribute(driver, CU_DEVICE_ATTRIBUTE_CLOCK_RATE, gpu.device));
  size_t total = 0;
  TRY(driver.ok(driver.cuDeviceTotalMem(&total, gpu.device), "size the GPU's memory"));
  gpu.memory_bytes = static_cast<int64_t>(total);
  int version = 0;
  TRY(driver.ok(driver.cuDriverGetVersion(&version), "ask the driver's version"));
  gpu.driver_version = version;
  // The primary context: the one that the runtime, torch and oracles use as well.
  TRY(driver.ok(driver.cuDevicePrimaryCtxRetain(&gpu.context, gpu.device), "make a context"));
  TRY(driver.ok(driver.cuCtxSetCurrent(gpu.context), "enter the context"));
  return gpu;
}

Result<Gpu> open_judging_gpu(int ordinal) {
  Gpu gpu = TRY(open_gpu(ordinal));
  if (gpu.compute_capability == judging_capability) return gpu;
  return fail(Fault::invalid,
              fmt::format("{} has compute capability {}.{}: Marathon judges on 9.0 (H100, H200); "
                          "choose such a GPU by CUDA_VISIBLE_DEVICES",
                          gpu.name, gpu.compute_capability / 10, gpu.compute_capability % 10));
}

DeviceArena::DeviceArena(DeviceArena&& other) noexcept
    : gpu_(other.gpu_),
      handle_(other.handle_),
      has_handle_(std::exchange(other.has_handle_, false)),
      mapped_(std::exchange(other.mapped_, false)),
      address_(std::exchange(other.address_, 0)),
      bytes_(other.bytes_) {}

DeviceArena::~DeviceArena() {
  const Driver& driver = *gpu_->driver;
  if (mapped_) driver.cuMemUnmap(address_, static_cast<size_t>(bytes_));
  if (address_ != 0) driver.cuMemAddressFree(address_, static_cast<size_t>(bytes_));
  if (has_handle_) driver.cuMemRelease(handle_);
}

Status DeviceArena::map(uint64_t address, bool read_only) {
  const Driver& driver = *gpu_->driver;
  const size_t bytes = static_cast<size_t>(bytes_);
  CUdeviceptr got = 0;
  TRY(driver.ok(driver.cuMemAddressReserve(&got, bytes, 0, address, 0), "reserve addresses"));
  address_ = got;
  if (address != 0 && got != address)
    return fail(Fault::retry, fmt::format("address {:#x} is taken in this process", address));
  TRY(driver.ok(driver.cuMemMap(got, bytes, 0, handle_, 0), "map device memory"));
  mapped_ = true;
  CUmemAccessDesc access = {};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = gpu_->device;
  access.flags = read_only ? CU_MEM_ACCESS_FLAGS_PROT_READ : CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return driver.ok(driver.cuMemSetAccess(got, bytes, &access, 1), "allow access to device memory");
}

Result<DeviceArena> DeviceArena::make(const Gpu& gpu, int64_t bytes) {
  const Driver& driver = *gpu.driver;
  const CUmemAllocationProp properties = properties_of(gpu);
  size_t granularity = 0;
  TRY(driver.ok(driver.cuMemGetAllocationGranularity(&granularity, &properties,
                                                     CU_MEM_ALLOC_GRANULARITY_RECOMMENDED),
                "ask for the allocation granularity"));
  const int64_t unit = static_cast<int64_t>(granularity);
  DeviceArena arena(gpu);
  arena.bytes_ = (bytes + unit - 1) / unit * unit;
  const CUresult made = driver.cuMemCreate(&arena.handle_, static_cast<size_t>(arena.bytes_),
                                           &properties, 0);
  TRY(driver.ok(made, fmt::format("take {:.1f} GB of the GPU's memory (other programs may hold it: "
                                  "nvidia-smi shows them)",
                                  1e-9 * static_cast<double>(arena.bytes_))));
  arena.has_handle_ = true;
  TRY(arena.map(0, false));
  return arena;
}

Result<DeviceArena> DeviceArena::import(const Gpu& gpu, int fd, int64_t bytes, uint64_t address,
                                        bool read_only) {
  const Driver& driver = *gpu.driver;
  DeviceArena arena(gpu);
  arena.bytes_ = bytes;
  void* shared = reinterpret_cast<void*>(static_cast<intptr_t>(fd));
  TRY(driver.ok(driver.cuMemImportFromShareableHandle(&arena.handle_, shared,
                                                      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
                "import the judge's memory"));
  arena.has_handle_ = true;
  TRY(arena.map(address, read_only));
  return arena;
}

Result<Fd> DeviceArena::share() const {
  int fd = -1;
  TRY(gpu_->driver->ok(gpu_->driver->cuMemExportToShareableHandle(
                           &fd, handle_, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
                       "share device memory"));
  return Fd(fd);
}

}  // namespace marathon
