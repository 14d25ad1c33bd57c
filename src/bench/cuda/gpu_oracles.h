// The oracle of a task for a GPU against its oracle in C++, which was written for itself: on the
// same inputs both must say the same.
#pragma once

#include <string>
#include <vector>

#include "bench/request.h"
#include "core/task.h"

namespace marathon {

struct OracleOutcome {
  std::string shape, reason;  // reason: where they differ
  double error = 0;           // the worst output's
  bool agrees = false;
};

// At every shape that is small enough for a plain loop; each output at its secret places. Empty: no
// shape is.
Result<std::vector<OracleOutcome>> compare_gpu_oracles(const BenchRequest& request,
                                                       const Task& task);

}  // namespace marathon
