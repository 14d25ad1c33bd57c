// What one core of this machine can do at most, by probes that check themselves: twice the work
// must take twice the time, or the probe is repeated.
#pragma once

#include "base/result.h"
#include "bench/request.h"

namespace marathon {

// About 0.4 s. Runs on the calling thread's core.
Result<Peaks> measure_peaks();

// Bandwidth of the cache level that holds `bytes`, or of memory.
double bandwidth_for(const Peaks& peaks, int64_t bytes);

// Size of the last level of cache in bytes, from sysfs; 32 MiB when it does not say.
int64_t last_level_cache_bytes();
int64_t cache_bytes(int level);

}  // namespace marathon
