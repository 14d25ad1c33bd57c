// What this GPU can do at most, by probes that check themselves: twice the work, twice the time.
#pragma once

#include "bench/request.h"

namespace marathon {

// memory_gbytes_s: a large copy, bytes read plus written. gflops: dense bf16 on N(0,1) data with fp32
// sums, sustained for half a second. Less than a second.
Result<Peaks> measure_gpu_peaks(const BenchRequest& request);

}  // namespace marathon
