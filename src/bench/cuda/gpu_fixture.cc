#include "bench/cuda/gpu_fixture.h"

#include <elf.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/hash.h"
#include "bench/cuda/cuda_fixture.h"

namespace marathon {

namespace fs = std::filesystem;

namespace {

constexpr const char* task_text = R"(schema = 1
name = "toy-gpu"
title = "A toy on a GPU"
kind = "kernel"
language = "cuda"
[target]
speedup = 0.0
text = "fast"
[files]
start = "start"
editable = ["solution.cu"]
oracle = "oracle.cu"
baseline = "baseline"
[build]
sources = ["solution.cu"]
[dims]
names = ["R", "C"]
[[tensor]]
name = "x"
role = "input"
dtype = "fp32"
shape = ["R", "C"]
distribution = { kind = "normal", mean = 0.0, std = 1.0 }
[[tensor]]
name = "y"
role = "output"
dtype = "fp32"
shape = ["R", "C"]
[[tensor]]
name = "c"
role = "output"
dtype = "fp32"
shape = ["R", "C"]
sample = { axis = "R", count = 8 }
[[shape]]
name = "R64-C100"
set = "listed"
dims = { R = 64, C = 100 }
[[shape]]
name = "R20-C300"
set = "listed"
dims = { R = 20, C = 300 }
[[shape]]
name = "odd"
set = "hidden"
dims = { R = 17, C = 33 }
[[shape]]
name = "large"
set = "stress"
dims = { R = 33, C = 20 }
distributions = { x = { kind = "normal", mean = 0.0, std = 1e4 } }
[tolerance]
factor = 2.0
minimum = 1e-6
cap = 1e-5
[floor]
flops = "R*C"
[measure]
cache = "cold"
restarts = 2
rounds = 2
buffer_sets = 2
timeout_s = 1
)";

// `real` double or float, as nvcc would compile it; device memory of the fake is memory.
constexpr const char* oracle_text = R"(
#define __CUDACC__
#include "marathon_kernel.h"
extern "C" int marathon_oracle(const MarathonArgs* args, const MarathonSample* samples) {
  const int64_t R = args->dims[0], C = args->dims[1];
  const float* x = (const float*)args->tensors[0];
  double *y = (double*)args->tensors[1], *c = (double*)args->tensors[2];
  for (int64_t i = 0; i < R * C; ++i) y[i] = (real)2 * (real)x[i];
  for (int64_t r = 0; r < samples[2].count; ++r)
    for (int64_t j = 0; j < C; ++j) c[r * C + j] = x[samples[2].indices[r] * C + j];
  return 0;
}
)";

constexpr const char* kernels_text =
    "fakecubin 1\n"
    "kernel scale_f32_100 cost_ns=100000 param_sizes=8,8,8,4\n"
    "kernel scale_f32_200 cost_ns=200000 param_sizes=8,8,8,4\n"
    "kernel scale_f32_400 cost_ns=400000 param_sizes=8,8,8,4\n"
    "kernel scale_f32_800 cost_ns=800000 param_sizes=8,8,8,4\n"
    "kernel doze_1 cost_ns=200000 param_sizes=8,8,8,4\n"
    "kernel copy_10 cost_ns=10000 param_sizes=8,8,8\n"
    "kernel fill32_1 cost_ns=1000 param_sizes=8,8,4\n"
    "kernel nop_1 cost_ns=1000\n"
    "kernel hang_1\n"
    "kernel ecc_1\n";

// What a compiler of CUDA would put into the library by itself.
constexpr const char* launch_text = R"(
#include "marathon_kernel.h"
#include <dlfcn.h>
#include <stdlib.h>
static void* driver(const char* name) {
  void* library = dlopen(getenv("MARATHON_CUDA_DRIVER"), RTLD_NOW);
  auto get = (int (*)(const char*, void**, int, uint64_t, int*))dlsym(library, "cuGetProcAddress_v2");
  void* function = nullptr;
  int status = 0;
  get(name, &function, 12040, 0, &status);
  return function;
}
template <class... A>
static void launch(const char* name, void* stream, A... arguments) {
  static void* module = nullptr;
  if (!module) ((int (*)(void**, const void*))driver("cuModuleLoadData"))(&module, image);
  void* function = nullptr;
  ((int (*)(void**, void*, const char*))driver("cuModuleGetFunction"))(&function, module, name);
  void* pointers[] = {&arguments..., nullptr};
  ((int (*)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**,
            void**))driver("cuLaunchKernel"))(function, 1, 1, 1, 32, 1, 1, 0, stream, pointers, nullptr);
}
)";

// The text behind the header of an ELF file without anything in it.
std::string cubin_of(const std::string& text) {
  Elf64_Ehdr header = {};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_machine = 190;  // CUDA
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = 1;
  header.e_shoff = sizeof header + text.size() + 1;
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
  bytes += text + '\0';
  return bytes + std::string(sizeof(Elf64_Shdr), '\0');
}

}  // namespace

GpuToy::GpuToy() : folder_(std::move(*TempFolder::make("marathon-gpu-toy"))) {
  EXPECT_NE(std::getenv("MARATHON_CUDA_DRIVER"), nullptr)
      << "MARATHON_CUDA_DRIVER must name libfakecuda.so: run this by ctest";
  EXPECT_TRUE(write_file(folder() / "task.toml", task_text));
  EXPECT_TRUE(write_file(folder() / "kernels.cubin", cubin_of(kernels_text)));
  EXPECT_TRUE(write_file(folder() / "judge.cubin", cuda_test::judge_cubin));
}

void GpuToy::change_task(const std::map<std::string, std::string>& replace) const {
  std::string text = task_text;
  for (const auto& [from, to] : replace) {
    ASSERT_NE(text.find(from), std::string::npos) << from;
    text.replace(text.find(from), from.size(), to);
  }
  ASSERT_TRUE(write_file(folder() / "task.toml", text));
}

fs::path GpuToy::compile(const std::string& source, const std::string& flag) const {
  const std::string name = short_hash(sha256_hex(source + flag));
  fs::path library = folder() / (name + ".so");
  if (fs::exists(library)) return library;
  EXPECT_TRUE(write_file(folder() / (name + ".cc"), source));
  ProcessSpec spec;
  spec.argv = {"g++",
               "-std=c++20",
               "-fPIC",
               "-shared",
               flag,
               std::string("-I") + MARATHON_SOURCE_DIR + "/include",
               "-o",
               library.string(),
               (folder() / (name + ".cc")).string()};
  spec.environment = clean_environment(folder());
  const Result<ProcessResult> result = run_process(spec);
  EXPECT_TRUE(result && result->exit_code == 0) << (result ? result->err : result.error().what);
  return library;
}

fs::path GpuToy::candidate(const std::string& body, const std::string& before) const {
  return compile(fmt::format("static const char image[] = R\"({})\";\n{}{}", kernels_text,
                             launch_text, before) +
                     R"(
extern "C" int marathon_run(const MarathonArgs* args) {
  [[maybe_unused]] int64_t R = args->dims[0], C = args->dims[1];
  [[maybe_unused]] void *x = args->tensors[0], *y = args->tensors[1], *c = args->tensors[2];
  [[maybe_unused]] void* stream = args->stream;
)" + body + "\n  return 0;\n}\n",
                 "-O0");
}

std::string GpuToy::honest_body(int us) {
  return fmt::format(
      "launch(\"scale_f32_{}\", stream, x, y, R * C, 2.0f);\n"
      "launch(\"copy_10\", stream, x, c, R * C * 4);\n",
      us);
}

fs::path GpuToy::honest(int us) const { return candidate(honest_body(us)); }

Json GpuToy::request(const fs::path& candidate) const {
  const std::string cubin = (folder() / "kernels.cubin").string();
  return {{"mode", "evaluate"},
          {"task_folder", folder().string()},
          {"candidate", candidate.string()},
          {"candidate_cubins", {cubin}},
          {"incumbent_cubins", {cubin}},
          {"baseline", honest(400).string()},
          {"baseline_cubins", {cubin}},
          {"oracle", compile(oracle_text, "-DMARATHON_REAL=double").string()},
          {"emulation", compile(oracle_text, "-DMARATHON_REAL=float").string()},
          {"worker", (own_folder() / "marathon-worker").string()},
          {"judge_cubin", (folder() / "judge.cubin").string()},
          {"temp_folder", folder().string()},
          {"seed", 5}};
}

ProcessResult GpuToy::run_judge(const Json& request, const std::string& faults) const {
  EXPECT_TRUE(write_file(folder() / "request.json", dump_json(request)));
  std::error_code none;
  fs::remove(folder() / "result.json", none);
  ProcessSpec spec;
  spec.argv = {(own_folder() / "marathon-judge").string(), "--request",
               (folder() / "request.json").string(), "--result",
               (folder() / "result.json").string()};
  spec.environment = clean_environment(folder());
  for (const char* name : {"MARATHON_CUDA_DRIVER"})
    spec.environment.push_back(std::string(name) + "=" + std::getenv(name));
  // A small L2: flushing it takes real time.
  spec.environment.push_back("MARATHON_FAKE_CUDA=l2=65536" + (faults.empty() ? "" : "," + faults));
  spec.timeout_s = 120;
  const Result<ProcessResult> result = run_process(spec);
  EXPECT_TRUE(result) << (result ? "" : result.error().what);
  return result ? *result : ProcessResult();
}

Json GpuToy::answer(const Json& request, const std::string& faults) const {
  const ProcessResult result = run_judge(request, faults);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const Result<std::string> text = read_file(folder() / "result.json");
  return text ? parse_json(*text).value_or(Json()) : Json();
}

Verdict GpuToy::judged(const Json& request, const std::string& faults) const {
  const Result<Verdict> verdict = verdict_from_json(answer(request, faults));
  EXPECT_TRUE(verdict) << (verdict ? "" : verdict.error().what);
  return verdict ? *verdict : Verdict();
}

}  // namespace marathon
