// What the fake's kernels do. Parameters of each, in order:
//
//   fill32_*         to, count, value              count words of 4 bytes
//   out_of_bounds_*  to, count, value              fill32, and one word more: past an output that
//   lies
//                                                  in mapped memory it does damage, past mapped
//                                                  memory it is an illegal access
//   copy_*           from, to, bytes
//   add_f32_*        a, b, out, count
//   scale_f32_*      in, out, count, factor (fp32)
//   nop_*            any
//   hang_*           any; never ends
//   ecc_*            any; memory breaks under it
//   doze_*           as scale_f32, and a millisecond of real time that no clock of the GPU sees
//   marathon_*       the judge's own (fake_judge.cc)
#include "fake_kernels.h"

#include <time.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "bench/cuda/abi.h"

namespace marathon::fake {

namespace {

using cuda::CUDA_ERROR_ILLEGAL_ADDRESS;
using cuda::CUDA_SUCCESS;

int fill(const Launch& launch, int64_t beyond) {
  const int64_t count = launch.parameter<int64_t>(1);
  const uint32_t value = launch.parameter<uint32_t>(2);
  uint32_t* to = launch.memory<uint32_t>(0, count, true);
  if (!to) return CUDA_ERROR_ILLEGAL_ADDRESS;
  std::fill_n(to, count, value);
  if (beyond == 0) return CUDA_SUCCESS;
  if (!launch.memory<uint32_t>(0, count + beyond, true)) return CUDA_ERROR_ILLEGAL_ADDRESS;
  std::fill_n(to + count, beyond, value);
  return CUDA_SUCCESS;
}

int fill32(const Launch& launch) { return fill(launch, 0); }
int out_of_bounds(const Launch& launch) { return fill(launch, 1); }

int copy(const Launch& launch) {
  const int64_t bytes = launch.parameter<int64_t>(2);
  const char* from = launch.memory<char>(0, bytes, false);
  char* to = launch.memory<char>(1, bytes, true);
  if (!from || !to) return CUDA_ERROR_ILLEGAL_ADDRESS;
  std::memmove(to, from, static_cast<size_t>(bytes));
  return CUDA_SUCCESS;
}

int add_f32(const Launch& launch) {
  const int64_t count = launch.parameter<int64_t>(3);
  const float* a = launch.memory<float>(0, count, false);
  const float* b = launch.memory<float>(1, count, false);
  float* out = launch.memory<float>(2, count, true);
  if (!a || !b || !out) return CUDA_ERROR_ILLEGAL_ADDRESS;
  for (int64_t i = 0; i < count; ++i) out[i] = a[i] + b[i];
  return CUDA_SUCCESS;
}

int scale_f32(const Launch& launch) {
  const int64_t count = launch.parameter<int64_t>(2);
  const float factor = launch.parameter<float>(3);
  const float* in = launch.memory<float>(0, count, false);
  float* out = launch.memory<float>(1, count, true);
  if (!in || !out) return CUDA_ERROR_ILLEGAL_ADDRESS;
  for (int64_t i = 0; i < count; ++i) out[i] = factor * in[i];
  return CUDA_SUCCESS;
}

int nothing(const Launch&) { return CUDA_SUCCESS; }
int hang(const Launch&) { return kernel_never_ends; }
int ecc(const Launch&) { return cuda::CUDA_ERROR_ECC_UNCORRECTABLE; }

int doze(const Launch& launch) {
  const timespec pause = {0, 1'000'000};
  ::nanosleep(&pause, nullptr);
  return scale_f32(launch);
}

struct Named {
  std::string_view prefix;
  Effect effect;
};

// Add kernels here: a whole name, or a prefix that ends with _.
constexpr Named effects[] = {
    {"fill32_", fill32},
    {"out_of_bounds_", out_of_bounds},
    {"copy_", copy},
    {"add_f32_", add_f32},
    {"scale_f32_", scale_f32},
    {"nop_", nothing},
    {"hang_", hang},
    {"ecc_", ecc},
    {"doze_", doze},
    {"marathon_fill", judge_fill},
    {"marathon_poison", judge_poison},
    {"marathon_find_damage", judge_find_damage},
    {"marathon_digest", judge_digest},
    {"marathon_read", judge_read},
    {"marathon_rows", judge_rows},
    {"marathon_probe", judge_probe},
    {"marathon_copy", judge_copy},
    {"marathon_matmul", judge_matmul},
};

}  // namespace

Effect effect_of(const std::string& kernel_name) {
  const Named* best = nullptr;
  for (const Named& named : effects) {
    if (kernel_name.starts_with(named.prefix) &&
        (!best || named.prefix.size() > best->prefix.size()))
      best = &named;
  }
  return best ? best->effect : nullptr;
}

}  // namespace marathon::fake
