// expect: rule_broken|crashed|wrong|suspicious|timed_out
// an interval timer goes on computing in a signal handler; faults at guard pages are swallowed too
#include <sys/time.h>

#include <csetjmp>
#include <csignal>

#include "prefix.h"

namespace {
PrefixArgs job;
int64_t row = 0;

void tick(int) {
  const float* before = row == 0 ? job.start : job.y + (row - 1) * job.c;
  if (row >= job.t) return;
  for (int64_t i = 0; i < job.c; ++i)
    job.y[row * job.c + i] = job.a[row * job.c + i] * before[i] + job.x[row * job.c + i];
  ++row;
}
}  // namespace

extern "C" int marathon_run(const MarathonArgs* args) {
  job = prefix_args(args);
  row = 0;
  std::signal(SIGALRM, tick);
  std::signal(SIGSEGV, SIG_IGN);
  std::signal(SIGBUS, SIG_IGN);
  const itimerval every{{0, 100}, {0, 100}};
  setitimer(ITIMER_REAL, &every, nullptr);
  return 0;
}
