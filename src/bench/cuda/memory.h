// The GPU that is used, and memory on it that processes share as file descriptors.
#pragma once

#include <cstdint>
#include <string>

#include "base/file.h"
#include "base/result.h"
#include "bench/cuda/driver.h"

namespace marathon {

// A device with its primary context current on the calling thread.
struct Gpu {
  const cuda::Driver* driver = nullptr;
  cuda::CUdevice device = 0;
  cuda::CUcontext context = nullptr;
  std::string name, uuid;
  int64_t compute_capability = 0;  // 90: 9.0
  int64_t multiprocessors = 0, l2_bytes = 0, memory_bytes = 0, max_clock_khz = 0;
  int64_t driver_version = 0;  // 13000: 13.0
};

// Error not_found without driver or device, with what to do; invalid when the driver is too old.
Result<Gpu> open_gpu(int ordinal);
// Error invalid: a GPU on which the judge's own kernels do not run.
Result<Gpu> open_judging_gpu(int ordinal);

// Physical memory of the device, mapped here; another process maps the same by its descriptor.
class DeviceArena {
 public:
  // At least `bytes`, rounded up to the device's granularity.
  static Result<DeviceArena> make(const Gpu& gpu, int64_t bytes);
  // `address` 0: wherever there is room; else there or an Error (Fault::retry: taken).
  static Result<DeviceArena> import(const Gpu& gpu, int fd, int64_t bytes, uint64_t address,
                                    bool read_only);
  DeviceArena(DeviceArena&& other) noexcept;
  DeviceArena& operator=(DeviceArena&&) = delete;
  ~DeviceArena();

  uint64_t address() const { return address_; }
  int64_t bytes() const { return bytes_; }
  Result<Fd> share() const;

 private:
  explicit DeviceArena(const Gpu& gpu) : gpu_(&gpu) {}
  Status map(uint64_t address, bool read_only);

  const Gpu* gpu_;
  cuda::CUmemGenericAllocationHandle handle_ = 0;
  bool has_handle_ = false, mapped_ = false;
  uint64_t address_ = 0;
  int64_t bytes_ = 0;
};

}  // namespace marathon
