// A task for the fake executor: three parameters, a hidden shape, a frozen header.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "base/file.h"

namespace marathon {

// 4 × 3 × 4 configurations, of which a constraint leaves 40.
inline constexpr std::string_view tiny_task = R"(schema = 1
name = "tiny"
kind = "kernel"
language = "c++"
[target]
speedup = 1.2
text = "a fifth faster"
[files]
editable = ["solution.cc", "params.toml", "extra/*.h"]
frozen = ["frozen.h"]
oracle = "oracle.cc"
baseline = "baseline"
[build]
sources = ["solution.cc"]
flags = ["-O3"]
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
name = "big"
set = "listed"
dims = { N = 1024 }
[[shape]]
name = "secret-77"
set = "hidden"
dims = { N = 77 }
[tolerance]
cap = 1e-4
[floor]
flops = "N"
[[parameter]]
name = "A"
values = [1, 2, 4, 8]
start = 1
category = "tiling"
[[parameter]]
name = "BB"
values = [1, 2, 3]
start = 1
category = "layout"
[[parameter]]
name = "CCC"
values = [0, 1, 2, 3]
start = 0
category = "unrolling"
[search]
constraints = ["A != 8 || CCC < 2 || BB == 1"]
[budget]
evaluations = 12
)";

inline void must_be_written(const Status& status) {
  if (status) return;
  std::fprintf(stderr, "%s\n", status.error().what.c_str());
  std::abort();
}

inline void write_tiny_task(const std::filesystem::path& folder) {
  must_be_written(make_folders(folder / "start" / "extra"));
  must_be_written(make_folders(folder / "baseline"));
  must_be_written(write_file(folder / "task.toml", tiny_task));
  must_be_written(
      write_file(folder / "start" / "solution.cc", "// speed 0.8\nint one;\nint two;\n"));
  must_be_written(write_file(folder / "start" / "params.toml", "A = 1\nBB = 1\nCCC = 0\n"));
  must_be_written(write_file(folder / "start" / "extra" / "more.h", "int more;\n"));
  must_be_written(write_file(folder / "start" / "readme.txt", "not editable\n"));
  must_be_written(write_file(folder / "baseline" / "solution.cc", "// the baseline\n"));
  must_be_written(write_file(folder / "frozen.h", "// frozen\n"));
  must_be_written(write_file(folder / "oracle.cc", "// the oracle\n"));
}

}  // namespace marathon
