// Ways to spoil a right output, as a cheat or a careless kernel would. Pure.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/random.h"
#include "bench/dtype.h"
#include "core/task.h"

namespace marathon {

// What a mutant may use: the honest output, and outputs of other problems.
struct Material {
  DType dtype;
  std::vector<int64_t> extents;
  Values honest;     // of the starting solution
  Values other;      // right for other inputs
  Values forgetful;  // right in the first half of the sequence; the second never
                     // saw the first
  Values coarse;     // emulation on inputs rounded to bf16
  Values partial;    // emulation that never saw half of what is summed over
  double allowed;    // error that is allowed anyway: a scale must be more than that
  Random& random;
};

// Indices along one axis of a dense tensor.
struct Axis {
  int64_t extent = 1, step = 1;
  int64_t index(int64_t element) const { return element / step % extent; }
};
// The axis of `tensor` whose extent is written as `name`, if it has one.
std::optional<Axis> axis_named(const Tensor& tensor, const std::vector<int64_t>& extents,
                               const std::string& name);
// What a sequence runs over: the longest axis of an output but its last (of a vector: its only
// one), as the task writes it. `extents` by tensor.
std::string sequence_axis(const Task& task, const std::vector<std::vector<int64_t>>& extents);
// What is summed over: the longest axis of an input of numbers that no output has; empty: none.
std::string summed_axis(const Task& task, const std::vector<std::vector<int64_t>>& extents);

struct Mutant {
  const char* name;
  std::function<Values(const Material&)> make;
};

const std::vector<Mutant>& all_mutants();

// Rounding to a type that the output or every input has already changes nothing that is wrong.
bool is_harmless(const std::string& mutant, const Task& task, DType output);

}  // namespace marathon
