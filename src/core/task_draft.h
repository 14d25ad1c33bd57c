// A task while it is read: what the parts of the parser hand to each other. Inside of core only.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/task.h"
#include "core/task_section.h"

namespace marathon {

struct Draft {
  Task task;
  Problems problems;
  // Where things stand, index by index as in `task`.
  std::vector<Position> shape_at, constraint_at;
  std::vector<std::vector<Position>> value_at;  // of each parameter's values
};

// task_sections.cc: what both kinds of task have.
void read_files(Section& root, Draft& draft);
void read_build(Section& root, Draft& draft);
void read_rules(Section& root, Draft& draft);
void read_measure(Section& root, Draft& draft);
void read_budget(Section& root, Draft& draft);
void read_profile(Section& root, Draft& draft);
void read_command(Section& root, Draft& draft);

// task_tensors.cc: dims, tensors, shapes, tolerance, floor, in this order: each looks at those
// before.
void read_tensors(Section& root, Draft& draft);

// task_gpu.cc: what only tasks in CUDA or Triton have.
void check_gpu_build(Section& section, Draft& draft);
bool refuse_nvcc_flag(const std::string& flag, Position at, Problems& problems);
void read_gpu_keys(Section& section, Tensor& tensor, Draft& draft);
void read_timed(Section& section, Shape& shape, Draft& draft);
void read_judge(Section& root, Draft& draft);
// Tensors with host = true, and offsets, at one shape.
void check_launch_table(Position at, const Tensor& tensor, int64_t elements, const Shape& shape,
                        Draft& draft);

// task_distribution.cc: how a tensor's values are drawn.
void read_distribution(const TomlValue& value, const std::string& tensor, DType dtype,
                       Distribution& out, Draft& draft);

// task_parameters.cc: parameters and the constraints between them.
void read_parameters(Section& root, Draft& draft);

// An error with its advice for a regular expression that does not compile, is longer than 1,000
// bytes or nested deeper than 30 brackets (std::regex compiles and matches by recursion); else the
// number of its groups.
Result<int64_t> check_regex(const std::string& pattern);

// Name for a thing of which there are several: an identifier, not yet used, at most 40 bytes.
bool check_identifier(std::string_view what, const std::string& name,
                      const std::vector<std::string>& used, Position at, Problems& problems);

// True when one file name can match both patterns; `*` stands for anything but '/'.
bool patterns_overlap(std::string_view a, std::string_view b);

}  // namespace marathon
