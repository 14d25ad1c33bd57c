#include "bench/bench_fixture.h"

#include <gtest/gtest.h>

#include "base/hash.h"
#include "base/process.h"

namespace marathon {

namespace {

constexpr const char* task_text = R"(
schema = 1
name = "toy"
title = "A toy"
kind = "kernel"
language = "c++"
[target]
speedup = 0.0
text = "fast"
[files]
start = "start"
editable = ["solution.cc"]
oracle = "oracle.cc"
baseline = "baseline"
[build]
sources = ["solution.cc"]
flags = ["-O2"]
[dims]
names = ["T", "C"]
[[tensor]]
name = "s"
role = "input"
dtype = "fp32"
shape = ["T"]
distribution = { kind = "uniform", low = 0.5, high = 1.5 }
[[tensor]]
name = "x"
role = "input"
dtype = "fp32"
shape = ["T", "C"]
distribution = { kind = "normal", mean = 0.0, std = 1.0 }
[[tensor]]
name = "y"
role = "output"
dtype = "fp32"
shape = ["T", "C"]
[[tensor]]
name = "last"
role = "output"
dtype = "fp32"
shape = ["C"]
[[shape]]
name = "T100-C64"
set = "listed"
dims = { T = 100, C = 64 }
[[shape]]
name = "T70-C150"
set = "listed"
dims = { T = 70, C = 150 }
[[shape]]
name = "one"
set = "hidden"
dims = { T = 1, C = 3 }
[[shape]]
name = "large"
set = "stress"
dims = { T = 20, C = 16 }
distributions = { x = { kind = "normal", mean = 0.0, std = 1e6 } }
[tolerance]
factor = 2.0
minimum = 1e-6
cap = 1e-5
worst_element_factor = 60
[floor]
flops = "3*T*C"
[measure]
cache = "warm"
restarts = 2
rounds = 2
buffer_sets = 2
timeout_s = 1
)";

constexpr const char* oracle_source = R"(
#include "marathon_kernel.h"
extern "C" int marathon_oracle(const MarathonArgs* args) {
  const int64_t T = args->dims[0], C = args->dims[1];
  const real* s = (const real*)args->tensors[0];
  const real* x = (const real*)args->tensors[1];
  real* y = (real*)args->tensors[2];
  real* last = (real*)args->tensors[3];
  for (int64_t t = 0; t < T; ++t)
    for (int64_t c = 0; c < C; ++c)
      y[t * C + c] = s[t] * x[t * C + c] + (t ? y[(t - 1) * C + c] / 2 : 0);
  for (int64_t c = 0; c < C; ++c) last[c] = y[(T - 1) * C + c];
  return 0;
}
)";

std::filesystem::path compile(const std::filesystem::path& folder, const std::string& source,
                              const std::vector<std::string>& flags) {
  std::string key = source;
  for (const std::string& flag : flags) key += " " + flag;
  std::filesystem::path library = folder / (short_hash(sha256_hex(key)) + ".so");
  if (std::filesystem::exists(library)) return library;
  const std::filesystem::path file = folder / (short_hash(sha256_hex(key)) + ".cc");
  EXPECT_TRUE(write_file(file, source));
  ProcessSpec spec;
  spec.argv = {"g++", "-std=c++20", "-O2", "-fPIC", "-shared",
               std::string("-I") + MARATHON_SOURCE_DIR + "/include"};
  spec.argv.insert(spec.argv.end(), flags.begin(), flags.end());
  spec.argv.insert(spec.argv.end(), {file.string(), "-o", library.string()});
  spec.environment = clean_environment(folder);
  const Result<ProcessResult> result = run_process(spec);
  EXPECT_TRUE(result && result->exit_code == 0) << (result ? result->err : result.error().what);
  return library;
}

}  // namespace

ToyTask::ToyTask(const Texts& replace) {
  Result<TempFolder> made = TempFolder::make("marathon-toy");
  EXPECT_TRUE(made);
  folder_ = std::make_unique<TempFolder>(std::move(*made));
  std::string text = task_text;
  for (const auto& [from, to] : replace) {
    EXPECT_NE(text.find(from), std::string::npos) << from;
    text.replace(text.find(from), from.size(), to);
  }
  EXPECT_TRUE(write_file(folder() / "task.toml", text));
  ParsedTask parsed = parse_task(text, "task.toml");
  EXPECT_TRUE(parsed.ok()) << (parsed.ok() ? "" : to_string(parsed.diagnostics.front()));
  task_ = std::move(parsed.task);
}

std::filesystem::path ToyTask::library(const std::string& source) const {
  return compile(folder(), source, {});
}

std::filesystem::path ToyTask::candidate(const std::string& body, const std::string& before) const {
  return library("#include \"marathon_kernel.h\"\n#include <string.h>\n" + before + R"(
extern "C" int marathon_run(const MarathonArgs* args) {
  [[maybe_unused]] const int64_t T = args->dims[0], C = args->dims[1];
  [[maybe_unused]] const float* s = (const float*)args->tensors[0];
  [[maybe_unused]] const float* x = (const float*)args->tensors[1];
  [[maybe_unused]] float* y = (float*)args->tensors[2];
  [[maybe_unused]] float* last = (float*)args->tensors[3];
  [[maybe_unused]] float* w = (float*)args->workspace;
)" + body + "\n  return 0;\n}\n");
}

std::string honest_body(int times) {
  return "for (int again = 0; again < " + std::to_string(times) + R"(; ++again) {
  for (int64_t t = 0; t < T; ++t)
    for (int64_t c = 0; c < C; ++c)
      y[t * C + c] = s[t] * x[t * C + c] + (t ? y[(t - 1) * C + c] / 2 : 0);
  memcpy(last, y + (T - 1) * C, C * sizeof(float));
  asm volatile("" ::: "memory");
})";
}

std::filesystem::path ToyTask::honest() const { return candidate(honest_body()); }

BenchRequest ToyTask::request(const std::filesystem::path& candidate) const {
  BenchRequest request;
  request.task_folder = request.temp_folder = folder();
  request.candidate = candidate;
  request.baseline = honest();
  request.oracle = compile(folder(), oracle_source, {"-DMARATHON_REAL=double"});
  request.emulation = compile(folder(), oracle_source, {"-DMARATHON_REAL=float"});
  request.worker = own_folder() / "marathon-worker";
  request.seed = 7;
  request.noise = 0.02;
  return request;
}

}  // namespace marathon
