// The physical limit of a shape, from its work and the machine's measured peaks.
#pragma once

#include "bench/session.h"

namespace marathon {

struct FloorTimes {
  double floor_us = 0;       // what measured peaks allow; 0: no peaks are known
  double impossible_us = 0;  // below this the time is not believed
  bool by_memory = false;
};

// Warm: the bandwidth of the cache level that holds a whole window, since a window's data were
// written just before it and a kernel whose data fit in a cache is not bound by memory. Cold: that
// of memory for the inputs, and for outputs only as far as they exceed the last level of cache.
Result<FloorTimes> floor_of(const Task& task, const ShapePlan& plan, const Peaks& peaks,
                            CacheState cache);

}  // namespace marathon
