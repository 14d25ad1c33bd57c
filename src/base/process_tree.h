// The tree of processes below one, read from /proc. Inside of base/ only.
#pragma once

#include <cstdint>
#include <vector>

namespace marathon {

struct ProcessStat {
  int pid = 0, parent = 0;
  char state = 0;  // R, S, D, T, Z … as in /proc/PID/stat
  int64_t resident_bytes = 0;
};

// Every process below `root` but those in `without` and what is below them.
std::vector<ProcessStat> descendants_of(int root, const std::vector<int>& without = {});

// Pids of live Process objects of this process: a sweep leaves them alone.
std::vector<int> live_children();

}  // namespace marathon
