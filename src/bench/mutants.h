// Tests a task's own checker: outputs of the honest start, spoilt in ways that a cheat would, must
// be refused at every listed shape. A mutant that equals the truth by construction is not
// applicable.
#pragma once

#include <string>
#include <vector>

#include "bench/request.h"
#include "core/task.h"
#include "core/verdict.h"

namespace marathon {

struct MutantOutcome {
  std::string mutant, shape, reason;
  bool refused = false, applicable = true;
};

// `request.candidate` is the starting solution. Error when that itself does not pass.
Result<std::vector<MutantOutcome>> run_mutants(const BenchRequest& request, const Task& task);

}  // namespace marathon
