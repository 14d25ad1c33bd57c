// Checking and timing on a GPU: the counterpart of check.h and measure.h.
#pragma once

#include "bench/bench.h"

namespace marathon {

// Error not_found or invalid when this machine cannot; what to do stands in it.
Result<std::unique_ptr<Bench>> make_gpu_bench(const BenchRequest& request, const Task& task);

}  // namespace marathon
