// One measurement at a time on a core, machine-wide and across users.
#pragma once

#include "base/file.h"

namespace marathon {

// flock on /tmp/marathon-core-N.lock, which any user may open for reading: that is enough to lock
// it. The lock ends with the process, however it ends. Waits up to `limit_s`, saying so once.
Result<Fd> lock_core(int core, double limit_s);

inline constexpr int gpu_lock_base = 100'000;  // GPUs beside the cores' numbers

}  // namespace marathon
