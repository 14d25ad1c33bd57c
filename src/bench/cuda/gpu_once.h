// One call of a candidate on a GPU, without a clock: its plan is replayed once in a process of ours
// that a tool (ncu, compute-sanitizer) may stand around.
#pragma once

#include "base/json.h"
#include "bench/request.h"

namespace marathon {

// {"exit_code", "timed_out", "output"} of the tool, {"failure"} when the candidate fails under it,
// and
// {"inputs": {"address", "bytes"}}: where the replayer has what the judge itself wrote.
Result<Json> run_gpu_once(const BenchRequest& request, const Task& task);

}  // namespace marathon
