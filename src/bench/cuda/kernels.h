// The judge's own kernels on the device: judge_kernels.cu, loaded and launched.
#pragma once

#include <array>
#include <map>
#include <string>

#include "bench/cuda/memory.h"

namespace marathon {

// A loaded module; unloaded with it. Kernels by their (mangled) name.
class Module {
 public:
  static Result<Module> load(const Gpu& gpu, const std::string& image);
  Module(Module&& other) noexcept;
  Module& operator=(Module&&) = delete;
  ~Module();

  // Error not_found: no such kernel here.
  Result<cuda::CUfunction> kernel(const std::string& name) const;

 private:
  explicit Module(const Gpu& gpu) : gpu_(&gpu) {}
  const Gpu* gpu_;
  cuda::CUmodule module_ = nullptr;
};

struct MarathonRowSums {
  double error = 0, truth = 0, worst = 0, odd = 0;
};

// As in judge_kernels.cu.
struct MarathonRows {
  uint64_t output = 0, expected = 0;
  int32_t type = 0, round_to = 0, rank = 0, axis = -1;
  int64_t full[8] = {}, compact[8] = {};
  uint64_t indices = 0;
  int64_t row = 0, cuts = 0, count = 0;
};

class JudgeKernels {
 public:
  // `image`: the cubin of judge_kernels.cu.
  static Result<JudgeKernels> load(const Gpu& gpu, const std::string& image);

  struct Fill {
    uint64_t to = 0;
    int32_t type = 0;
    int64_t count = 0, row = 1;
    int32_t kind = 0;
    double a = 0, b = 0, norm = 0;
    uint64_t seed = 0;
  };
  Status fill(const Fill& fill, cuda::CUstream stream) const;
  // The words [begin, end) of 8 bytes of a range that starts at `base`; the poison is a pure function
  // of seed and place.
  Status poison(uint64_t base, int64_t begin, int64_t end, uint64_t seed,
                cuda::CUstream stream) const;
  // The bytes [begin, end) of a poisoned range that starts at `base`: the least one that was changed
  // goes to `first` (device, 8 bytes), which must hold ~0 before.
  Status find_damage(uint64_t base, int64_t begin, int64_t end, uint64_t seed, uint64_t first,
                     cuda::CUstream stream) const;
  Status digest(uint64_t base, int64_t bytes, uint64_t sum, cuda::CUstream stream) const;
  Status read(uint64_t base, int64_t bytes, uint64_t sink, cuda::CUstream stream) const;
  Status rows(const MarathonRows& job, uint64_t sums, cuda::CUstream stream) const;
  Status probe(uint64_t spin_ns, uint64_t longest, cuda::CUstream stream) const;
  // 64 × 256 × 16 multiply-adds, `count` times, in each of two warp groups of every multiprocessor.
  Status matmul(int64_t count, uint64_t seed, uint64_t sink, cuda::CUstream stream) const;
  Status copy(uint64_t from, uint64_t to, int64_t bytes, cuda::CUstream stream) const;

 private:
  JudgeKernels(const Gpu& gpu, Module module) : gpu_(&gpu), module_(std::move(module)) {}
  enum Which { w_fill, w_poison, w_find, w_digest, w_read, w_rows, w_probe, w_copy, w_matmul, w_count };
  template <class... Arguments>
  Status launch(Which which, int64_t work, cuda::CUstream stream, Arguments... arguments) const;

  const Gpu* gpu_;
  Module module_;
  std::array<cuda::CUfunction, w_count> kernels_ = {};
};

}  // namespace marathon
