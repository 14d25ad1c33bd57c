// For tests on the fake CUDA driver (tests/fakes): a process of its own for each driver, kernels,
// memory.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "bench/cuda/memory.h"

namespace marathon::cuda_test {

// A driver is loaded once a process, with the faults of that moment: `body` runs in a fork, and its
// failures are this test's.
void in_process(const std::string& faults, const std::function<void()>& body,
                const std::map<std::string, std::string>& environment = {});

// Kernels that every test may use, each 10 µs long but slow_: see the text in the .cc.
extern const char* const cubin;
// The judge's own.
extern const char* const judge_cubin;

// The GPU with a stream and the kernels of `cubin`. Dies in the constructor when it cannot be had.
class Lab {
 public:
  Lab();
  const cuda::Driver* operator->() const { return gpu.driver; }
  const cuda::Driver& driver() const { return *gpu.driver; }

  // Known from the start: a lost context tells no names any more.
  cuda::CUfunction kernel(const std::string& name) const { return kernels_.at(name); }
  cuda::CUdeviceptr allocate(size_t bytes) const;
  cuda::CUstream make_stream(unsigned flags = cuda::CU_STREAM_NON_BLOCKING) const;
  cuda::CUevent make_event() const;
  std::vector<float> floats(cuda::CUdeviceptr from, size_t count) const;
  std::vector<uint32_t> words(cuda::CUdeviceptr from, size_t count) const;
  double elapsed_ns(cuda::CUevent begin, cuda::CUevent end) const;
  // Pinned memory that a stream can wait for.
  uint32_t* make_gate(cuda::CUdeviceptr& on_device) const;

  template <class... Arguments>
  cuda::CUresult launch(const std::string& name, cuda::CUstream on, Arguments... arguments) const {
    void* pointers[] = {&arguments..., nullptr};
    return gpu.driver->cuLaunchKernel(kernel(name), 1, 1, 1, 32, 1, 1, 0, on, pointers, nullptr);
  }

  Gpu gpu;
  cuda::CUmodule module = nullptr;
  cuda::CUstream stream = nullptr;

 private:
  std::map<std::string, cuda::CUfunction> kernels_;
};

}  // namespace marathon::cuda_test
