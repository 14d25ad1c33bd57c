// From a request to a verdict: check, measure, decide, confirm.
#pragma once

#include "bench/request.h"
#include "core/task.h"
#include "core/verdict.h"

namespace marathon {

Result<Verdict> evaluate_candidate(const BenchRequest& request, const Task& task);

// A/A: the baseline as candidate and as incumbent through the whole protocol. The gain's interval.
struct NoiseFigures {
  Interval ratio;
  double noise = 0;  // half width, at least 0.1 %
  int64_t windows = 0;
};
Result<NoiseFigures> measure_noise_figures(const BenchRequest& request, const Task& task);

// Runs the candidate `calls` times at one listed shape, without a clock: to see that it works, or
// under a profiler that follows children.
Status run_once(const BenchRequest& request, const Task& task);

inline constexpr double least_noise = 0.001;

}  // namespace marathon
