// For the tests of judge/: a small kernel task, libraries built from text, programs that stand in
// for marathon-judge and srun.
#pragma once

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/process.h"
#include "judge/build.h"
#include "judge/judge.h"

namespace marathon {

namespace fs = std::filesystem;

// An environment variable for the length of a test.
class EnvironmentVariable {
 public:
  EnvironmentVariable(const char* name, const std::string& value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    ::setenv(name, value.c_str(), 1);
  }
  ~EnvironmentVariable() {
    if (old_)
      ::setenv(name_, old_->c_str(), 1);
    else
      ::unsetenv(name_);
  }
  EnvironmentVariable(const EnvironmentVariable&) = delete;
  EnvironmentVariable& operator=(const EnvironmentVariable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> old_;
};

inline TempFolder temp_folder() {
  Result<TempFolder> folder = TempFolder::make("marathon-judge-test");
  if (!folder) throw std::runtime_error(folder.error().what);
  return std::move(*folder);
}

inline void put(const fs::path& file, std::string_view text) {
  ASSERT_TRUE(make_folders(file.parent_path()));
  ASSERT_TRUE(write_file(file, text));
}

inline void put_program(const fs::path& file, const std::string& text) {
  put(file, "#!/bin/sh\n" + text);
  fs::permissions(file, fs::perms::owner_all);
}

inline std::string text_of(const fs::path& file) { return read_file(file).value_or("<none>"); }

inline Status no_stage(const std::string&, const std::string&, double) { return {}; }

// One cache for the whole test program: the same library is built once.
inline const fs::path& shared_cache() {
  static const TempFolder folder = temp_folder();
  return folder.path();
}

inline BuildJob job_of(const std::string& source, std::vector<std::string> flags = {"-O1"}) {
  BuildJob job;
  job.files = {{"solution.cc", source}};
  job.sources = {"solution.cc"};
  job.flags = std::move(flags);
  job.timeout_s = 60;
  return job;
}

inline BuildOutcome must_build(const BuildJob& job) {
  const Result<BuildOutcome> built = build(job, shared_cache(), {}, {});
  EXPECT_TRUE(built) << (built ? "" : built.error().what);
  if (!built) return {};
  EXPECT_TRUE(built->ok) << built->reason << "\n" << built->output;
  return *built;
}

inline const std::string honest_source = R"(#include "marathon_kernel.h"
#include <cmath>
static const float table[4] = {1, 2, 3, 4};
extern "C" int marathon_run(const MarathonArgs* args) {
  const float* x = static_cast<const float*>(args->tensors[0]);
  float* y = static_cast<float*>(args->tensors[1]);
  for (int64_t i = 0; i < args->dims[0]; ++i) y[i] = table[i % 4] * std::exp(x[i]);
  return 0;
}
)";

// y = scale * x.
inline const std::string kernel_task_text = R"(schema = 1
name = "scale"
kind = "kernel"
language = "c++"
[files]
editable = ["solution.cc", "extra/*.h", "params.toml"]
frozen = ["scale.h"]
[build]
sources = ["solution.cc"]
flags = ["-std=c++20", "-O2"]
timeout_s = 60
[dims]
names = ["N"]
[[tensor]]
name = "x"
role = "input"
dtype = "fp32"
shape = ["N"]
[[tensor]]
name = "y"
role = "output"
dtype = "fp32"
shape = ["N"]
[[shape]]
name = "N1000"
set = "listed"
dims = { N = 1000 }
[floor]
flops = "N"
[[parameter]]
name = "UNROLL"
values = [1, 2, 4]
start = 2
[[parameter]]
name = "FAST"
flags = ["", "-ffast-math"]
start = 0
[search]
constraints = ["UNROLL < 4 || FAST == 0"]
[rules]
forbidden_text = ["\\bgoto\\b"]
)";

inline const std::string scale_source = R"(#include "scale.h"
extern "C" int marathon_run(const MarathonArgs* args) {
  const float* x = static_cast<const float*>(args->tensors[0]);
  float* y = static_cast<float*>(args->tensors[1]);
  for (int64_t i = 0; i < args->dims[0]; ++i) y[i] = SCALE * x[i];
  return UNROLL > 0 ? 0 : 1;
}
)";

inline void put_kernel_task(const fs::path& folder) {
  put(folder / "task.toml", kernel_task_text);
  put(folder / "scale.h", "#include \"marathon_kernel.h\"\n#define SCALE 2\n");
  put(folder / "oracle.cc", R"(#include "scale.h"
extern "C" int marathon_oracle(const MarathonArgs* args) {
  const real* x = static_cast<const real*>(args->tensors[0]);
  real* y = static_cast<real*>(args->tensors[1]);
  for (int64_t i = 0; i < args->dims[0]; ++i) y[i] = SCALE * x[i];
  return 0;
}
)");
  put(folder / "start/solution.cc", scale_source);
  put(folder / "start/params.toml", "UNROLL = 2\nFAST = 0\n");
  std::string baseline = scale_source;
  baseline.replace(baseline.find("UNROLL > 0 ? 0 : 1"), 18, "0");
  put(folder / "baseline/solution.cc", baseline);
}

inline LoadedTask must_load(const fs::path& folder) {
  Result<LoadedTask> task = load_task(folder);
  EXPECT_TRUE(task) << (task ? "" : task.error().what);
  return task ? std::move(*task) : LoadedTask();
}

// A folder of programs for $MARATHON_BIN with the real marathon-worker in it.
class ProgramFolder {
 public:
  ProgramFolder() : folder_(temp_folder()), variable_("MARATHON_BIN", folder_.path().string()) {
    fs::create_symlink(own_folder() / "marathon-worker", folder_.path() / "marathon-worker");
  }
  const fs::path& path() const { return folder_.path(); }

 private:
  TempFolder folder_;
  EnvironmentVariable variable_;
};

}  // namespace marathon
