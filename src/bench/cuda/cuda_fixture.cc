#include "bench/cuda/cuda_fixture.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace marathon::cuda_test {

using namespace cuda;

namespace {

constexpr unsigned patience_s = 60;

[[noreturn]] void give_up(const std::string& why) {
  ADD_FAILURE() << why;
  std::fflush(nullptr);
  ::_exit(1);
}

void need(const Status& status) {
  if (!status) give_up(status.error().what);
}

}  // namespace

const char* const cubin =
    "fakecubin 1\n"
    "kernel fill32_a cost_ns=10000 param_sizes=8,8,4 max_shared=65536\n"
    "kernel copy_a cost_ns=10000 param_sizes=8,8,8\n"
    "kernel add_f32_a cost_ns=10000 param_sizes=8,8,8,4\n"
    "kernel scale_f32_a cost_ns=10000 param_sizes=8,8,4,4\n"
    "kernel nop_a cost_ns=10000\n"
    "kernel nop_slow cost_ns=1000000  # a comment\n"
    "kernel out_of_bounds_a cost_ns=10000 param_sizes=8,8,4\n"
    "kernel hang_a\n";

const char* const judge_cubin =
    "fakecubin 1\n"
    "kernel marathon_fill param_sizes=8,4,8,8,4,8,8,8,8\n"
    "kernel marathon_poison param_sizes=8,8,8,8\n"
    "kernel marathon_find_damage param_sizes=8,8,8,8,8\n"
    "kernel marathon_digest param_sizes=8,8,8\n"
    "kernel marathon_read param_sizes=8,8,8\n"
    "kernel marathon_rows param_sizes=192,8\n"
    "kernel marathon_probe param_sizes=8,8\n"
    "kernel marathon_copy param_sizes=8,8,8\n"
    "kernel marathon_matmul param_sizes=8,8,8\n";

void in_process(const std::string& faults, const std::function<void()>& body,
                const std::map<std::string, std::string>& environment) {
  ASSERT_NE(std::getenv("MARATHON_CUDA_DRIVER"), nullptr)
      << "MARATHON_CUDA_DRIVER must name libfakecuda.so: run this by ctest";
  std::fflush(nullptr);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::alarm(patience_s);
    ::setenv("MARATHON_FAKE_CUDA", faults.c_str(), 1);
    for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
    body();
    std::fflush(nullptr);
    ::_exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << (WIFSIGNALED(status) ? "ended by a signal" : "see the failures above");
}

Lab::Lab() {
  Result<Gpu> opened = open_gpu(0);
  if (!opened) give_up(opened.error().what);
  gpu = *std::move(opened);
  need(driver().ok(driver().cuModuleLoadData(&module, cubin), "load the kernels"));
  for (const char* name : {"fill32_a", "copy_a", "add_f32_a", "scale_f32_a", "nop_a", "nop_slow",
                           "out_of_bounds_a", "hang_a"})
    need(driver().ok(driver().cuModuleGetFunction(&kernels_[name], module, name), name));
  stream = make_stream();
}

CUdeviceptr Lab::allocate(size_t bytes) const {
  CUdeviceptr address = 0;
  need(driver().ok(driver().cuMemAlloc(&address, bytes), "allocate"));
  return address;
}

CUstream Lab::make_stream(unsigned flags) const {
  CUstream made = nullptr;
  need(driver().ok(driver().cuStreamCreate(&made, flags), "make a stream"));
  return made;
}

CUevent Lab::make_event() const {
  CUevent made = nullptr;
  need(driver().ok(driver().cuEventCreate(&made, CU_EVENT_DEFAULT), "make an event"));
  return made;
}

std::vector<float> Lab::floats(CUdeviceptr from, size_t count) const {
  std::vector<float> values(count);
  need(driver().ok(driver().cuMemcpyDtoH(values.data(), from, count * 4), "read"));
  return values;
}

std::vector<uint32_t> Lab::words(CUdeviceptr from, size_t count) const {
  std::vector<uint32_t> values(count);
  need(driver().ok(driver().cuMemcpyDtoH(values.data(), from, count * 4), "read"));
  return values;
}

double Lab::elapsed_ns(CUevent begin, CUevent end) const {
  float ms = 0;
  need(driver().ok(driver().cuEventElapsedTime(&ms, begin, end), "read the events"));
  return 1e6 * static_cast<double>(ms);
}

uint32_t* Lab::make_gate(CUdeviceptr& on_device) const {
  void* gate = nullptr;
  need(driver().ok(driver().cuMemHostAlloc(&gate, 64, CU_MEMHOSTALLOC_DEVICEMAP), "pin memory"));
  need(driver().ok(driver().cuMemHostGetDevicePointer(&on_device, gate, 0), "map pinned memory"));
  return static_cast<uint32_t*>(gate);
}

}  // namespace marathon::cuda_test
