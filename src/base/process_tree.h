// The tree of processes below one, read from /proc. Inside of base/ only.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

namespace marathon {

struct ProcessStat {
  int pid = 0, parent = 0, group = 0, session = 0;
  char state = 0;             // R, S, D, T, Z … as in /proc/PID/stat
  int64_t threads = 0;        // a bomb of threads is a bomb too
  int64_t started_ticks = 0;  // since boot: with the pid, who it is for ever
  int64_t resident_bytes = 0;
};

// Every process below `root` but those in `without` and what is below them. Looks at every process
// of the machine, so that nothing is missed: for sweeps.
std::vector<ProcessStat> descendants_of(int root, const std::vector<int>& without = {});

// The same through /proc/PID/task/*/children: costs what the tree costs, not what the machine runs,
// but may miss what is born or adopted while it looks. For the watcher, which looks again.
std::vector<ProcessStat> tree_of(int root, const std::vector<int>& without = {});

// Of one process; all zero when it is gone.
ProcessStat stat_of(int pid);

// Whether every thread of the process stands still. False too when it is gone.
bool all_threads_stopped(int pid);

// Pids of live Process objects of this process: a sweep leaves them alone.
std::vector<int> live_children();

// Held from before a child is born until it is among live_children(), and while a sweep looks and
// kills: or a sweep on one thread would kill what another thread has just started.
std::mutex& birth_mutex();

// sweep_descendants() that asks for live_children() anew in each round.
int64_t sweep_strays();

}  // namespace marathon
