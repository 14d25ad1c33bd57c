#include "bench/cuda/kernels.h"

#include <algorithm>
#include <utility>

namespace marathon {

using namespace cuda;

namespace {

constexpr int64_t threads_a_block = 256, blocks_a_multiprocessor = 8;

}  // namespace

Result<Module> Module::load(const Gpu& gpu, const std::string& image) {
  Module module(gpu);
  TRY(gpu.driver->ok(gpu.driver->cuModuleLoadData(&module.module_, image.c_str()), "load a cubin"));
  return module;
}

Module::Module(Module&& other) noexcept
    : gpu_(other.gpu_), module_(std::exchange(other.module_, nullptr)) {}

Module::~Module() {
  if (module_) gpu_->driver->cuModuleUnload(module_);
}

Result<CUfunction> Module::kernel(const std::string& name) const {
  CUfunction function = nullptr;
  const CUresult found = gpu_->driver->cuModuleGetFunction(&function, module_, name.c_str());
  if (found == CUDA_ERROR_NOT_FOUND) return fail(Fault::not_found, "no kernel " + name);
  TRY(gpu_->driver->ok(found, "look for the kernel " + name));
  return function;
}

Result<JudgeKernels> JudgeKernels::load(const Gpu& gpu, const std::string& image) {
  static constexpr const char* names[w_count] = {
      "marathon_fill", "marathon_poison", "marathon_find_damage", "marathon_digest",
      "marathon_read", "marathon_rows",   "marathon_probe",       "marathon_copy",
      "marathon_matmul"};
  JudgeKernels kernels(gpu, TRY(Module::load(gpu, image)));
  for (size_t i = 0; i < w_count; ++i)
    kernels.kernels_[i] = TRY(kernels.module_.kernel(names[i]));
  return kernels;
}

// `work`: threads that have something to do; the kernels stride over what a full device leaves.
template <class... Arguments>
Status JudgeKernels::launch(Which which, int64_t work, CUstream stream,
                            Arguments... arguments) const {
  if (work <= 0) return {};
  const int64_t blocks = std::clamp<int64_t>((work + threads_a_block - 1) / threads_a_block, 1,
                                             gpu_->multiprocessors * blocks_a_multiprocessor);
  void* pointers[] = {&arguments...};
  return gpu_->driver->ok(
      gpu_->driver->cuLaunchKernel(kernels_[which], static_cast<unsigned>(blocks), 1, 1,
                                   threads_a_block, 1, 1, 0, stream, pointers, nullptr),
      "launch one of the judge's kernels");
}

Status JudgeKernels::fill(const Fill& fill, CUstream stream) const {
  const int64_t work = fill.norm > 0 ? fill.count / fill.row * 32 : fill.count;
  return launch(w_fill, work, stream, fill.to, fill.type, fill.count, fill.row, fill.kind, fill.a,
                fill.b, fill.norm, fill.seed);
}

Status JudgeKernels::poison(uint64_t base, int64_t begin, int64_t end, uint64_t seed,
                            CUstream stream) const {
  return launch(w_poison, end - begin, stream, base, begin, end, seed);
}

Status JudgeKernels::find_damage(uint64_t base, int64_t begin, int64_t end, uint64_t seed,
                                 uint64_t first, CUstream stream) const {
  return launch(w_find, end - begin, stream, base, begin, end, seed, first);
}

Status JudgeKernels::digest(uint64_t base, int64_t bytes, uint64_t sum, CUstream stream) const {
  return launch(w_digest, bytes / 8, stream, base, bytes / 8, sum);
}

Status JudgeKernels::read(uint64_t base, int64_t bytes, uint64_t sink, CUstream stream) const {
  return launch(w_read, bytes / 16, stream, base, bytes / 16, sink);
}

Status JudgeKernels::rows(const MarathonRows& job, uint64_t sums, CUstream stream) const {
  return launch(w_rows, job.count * 32, stream, job, sums);
}

Status JudgeKernels::probe(uint64_t spin_ns, uint64_t longest, CUstream stream) const {
  return launch(w_probe, gpu_->multiprocessors * threads_a_block, stream, spin_ns, longest);
}

Status JudgeKernels::matmul(int64_t count, uint64_t seed, uint64_t sink, CUstream stream) const {
  void* pointers[] = {&count, &seed, &sink};
  return gpu_->driver->ok(
      gpu_->driver->cuLaunchKernel(kernels_[w_matmul], static_cast<unsigned>(gpu_->multiprocessors),
                                   1, 1, 256, 1, 1, 0, stream, pointers, nullptr),
      "launch the matrix probe");
}

Status JudgeKernels::copy(uint64_t from, uint64_t to, int64_t bytes, CUstream stream) const {
  return launch(w_copy, bytes / 16, stream, from, to, bytes / 16);
}

}  // namespace marathon
