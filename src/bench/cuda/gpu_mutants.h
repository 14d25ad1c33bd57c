// run_mutants() for a task on a GPU: spoilt outputs go back into the judge's buffers, and what looks
// at them there is what looks at a candidate's.
#pragma once

#include "bench/mutants.h"

namespace marathon {

Result<std::vector<MutantOutcome>> run_gpu_mutants(const BenchRequest& request, const Task& task);

}  // namespace marathon
