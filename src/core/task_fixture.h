// Two sound tasks and a short way to break them. For the tests of core.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "core/task.h"

namespace marathon {

inline constexpr std::string_view kernel_task = R"(schema = 1
name = "kda-cpu"
title = "KDA forward on one CPU core"
kind = "kernel"
language = "c++"
description = "An example."

[target]
speedup = 3.0
text = "at least 3 x the baseline"

[files]
start = "start"
editable = ["solution.cc", "params.toml"]
frozen = ["kda.h"]
oracle = "oracle.cc"
baseline = "baseline"
baseline_visible = true

[build]
sources = ["solution.cc"]
flags = ["-std=c++20", "-O3"]
timeout_s = 100
max_memory_mb = 2048

[dims]
names = ["B", "T", "K"]

[[tensor]]
name = "q"
role = "input"
dtype = "fp32"
shape = ["B", "T + 1", "K"]
distribution = { kind = "normal", mean = 0.0, std = 2.0 }
normalize_last_axis = 1.0

[[tensor]]
name = "g"
role = "input"
dtype = "int64"
shape = ["B"]
distribution = { kind = "integers", low = 0, high = 9 }

[[tensor]]
name = "o"
role = "output"
dtype = "bf16"
shape = ["B", "T", "K"]

[[shape]]
name = "T512"
set = "listed"
dims = { B = 1, T = 512, K = 64 }
weight = 2.0
distributions = { q = { kind = "constant", value = -5.0 } }

[[shape]]
name = "odd"
set = "hidden"
dims = { B = 2, T = 77, K = 64 }

[tolerance]
factor = 1.5
minimum = 1e-7
cap = { o = 1e-4 }
worst_element_factor = 20

[floor]
flops = "B*T*7*K"
bytes = "B*T*K*8"

[[parameter]]
name = "CHUNK"
values = [8, 16, 32]
start = 16
category = "tiling"
help = "tokens a chunk"
[[parameter]]
name = "FORM"
values = [0, 1]
start = 1
category = "algorithm"
[[parameter]]
name = "FLAGS"
flags = ["", "-ffast-math", "-funroll-loops  -O2"]
start = 0
category = "compiler"

[search]
constraints = ["FORM == 1 || CHUNK == 16"]

[rules]
threads = 1
forbidden_text = ["\\bsystem\\s*\\("]
allowed_libraries = ["libgomp.so.1"]
max_source_bytes = 1000

[measure]
cache = "cold"
restarts = 5
rounds = 6
buffer_sets = 4
timeout_s = 20

[budget]
evaluations = 60
tool_calls = 7
hours = 1.5

[profile]
on_new_best = false
shape = "T512"
)";

inline constexpr std::string_view command_task = R"(schema = 1
name = "bundle"
kind = "command"
[files]
editable = ["src/*.js"]
frozen = ["check.sh", "measure.sh"]
[command]
build = ["make", "-s"]
check = ["./check.sh"]
measure = ["./measure.sh"]
timeout_s = 60
direction = "minimize"
unit = "bytes"
metric = { regex = 'total: (\d+)' }
repeats = 3
min_gain = 0.01
interleave = true
)";

inline constexpr std::string_view gpu_task = R"(schema = 1
name = "kda-forward"
kind = "kernel"
language = ["triton", "cuda"]
[files]
editable = ["solution.cu", "*.cuh", "solution.py", "params.toml"]
cpu_oracle = "oracle.cc"
[build]
sources = ["solution.cu", "solution.py"]
flags = ["-std=c++20", "-O3"]
[dims]
names = ["T", "N", "V"]
[[tensor]]
name = "x"
role = "input"
dtype = "bf16"
shape = ["T", "V"]
[[tensor]]
name = "beta"
role = "input"
dtype = "fp32"
shape = ["T"]
distribution = { kind = "logit_log_uniform", low = 1e-3, high = 0.99 }
[[tensor]]
name = "cu_seqlens"
role = "input"
dtype = "int32"
shape = ["N + 1"]
host = true
distribution = { kind = "offsets", lengths = [1300, 547] }
[[tensor]]
name = "o"
role = "output"
dtype = "bf16"
shape = ["T", "V"]
sample = { axis = "T", count = 16 }
[[shape]]
name = "listed"
set = "listed"
dims = { T = 1847, N = 2, V = 128 }
[[shape]]
name = "hidden"
set = "hidden"
dims = { T = 77, N = 3, V = 64 }
distributions = { cu_seqlens = { kind = "offsets", lengths = [70, 0, 7] } }
timed = true
[[parameter]]
name = "CHUNK"
values = [32, 64]
start = 64
)";

inline std::string all_problems(std::string_view text) {
  std::string result;
  for (const Diagnostic& diagnostic : parse_task(text, "task.toml").diagnostics) {
    EXPECT_GE(diagnostic.line, 1);
    EXPECT_GE(diagnostic.column, 1);
    result += to_string(diagnostic) + "\n";
  }
  return result;
}

inline std::string replaced(std::string text, std::string_view from, std::string_view to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

// The problems of the kernel task with one thing changed.
inline std::string kernel_with(std::string_view from, std::string_view to) {
  return all_problems(replaced(std::string(kernel_task), from, to));
}

inline std::string command_with(std::string_view from, std::string_view to) {
  return all_problems(replaced(std::string(command_task), from, to));
}

inline std::string gpu_with(std::string_view from, std::string_view to) {
  return all_problems(replaced(std::string(gpu_task), from, to));
}

inline Task good_task(std::string_view text = kernel_task) {
  ParsedTask parsed = parse_task(text, "task.toml");
  EXPECT_TRUE(parsed.ok()) << all_problems(text);
  return std::move(parsed.task);
}

}  // namespace marathon
