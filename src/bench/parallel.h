// Work of the judge's own on every core that it may use, while all workers stand still.
#pragma once

#include <cstdint>
#include <functional>

#include "base/result.h"

namespace marathon {

// Calls work(0) … work(count - 1), each once; the first error wins.
Status in_parallel(int64_t count, const std::function<Status(int64_t)>& work);

// The cores that this process may use, as it was started.
int allowed_cores();
int last_allowed_core();

// Puts this thread on a core other than `core`, where there is one that shares no execution units
// with it. False: there is none.
bool stand_aside_of(int core);
void stand_on(int core);
void stand_anywhere();

// Real-time priority, so that nothing else gets the core in the middle of a window. Only root and
// CAP_SYS_NICE may; without it more windows are disturbed and thrown away, that is all. `pid` 0:
// this thread. False: not allowed.
bool make_urgent(int pid);
void make_ordinary(int pid);

}  // namespace marathon
