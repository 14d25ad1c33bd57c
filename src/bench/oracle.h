// The reference and the honest emulation: the task's oracle.cc, compiled with real = double and
// float. Both are trusted, and pure functions: they are called from several threads at once.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "bench/dtype.h"
#include "core/task.h"

namespace marathon {

// One problem's tensors as numbers, in the order of task.tensors.
struct Problem {
  std::vector<int64_t> dims;
  std::vector<Values> tensors;
};

class Oracle {
 public:
  // `real_bytes`: 8 for the reference, 4 for the emulation.
  static Result<Oracle> load(const std::filesystem::path& library, int64_t real_bytes);
  Oracle(Oracle&& other) noexcept;
  Oracle& operator=(Oracle&&) = delete;
  ~Oracle();

  // Fills the outputs from the inputs. Error when the oracle refuses the shape: the task is wrong.
  Status run(const Task& task, Problem& problem) const;

 private:
  Oracle() = default;
  template <class Real>
  Status run_as(const Task& task, Problem& problem) const;

  void* handle_ = nullptr;
  void* entry_ = nullptr;
  int64_t real_bytes_ = 8;
};

}  // namespace marathon
