// expect: rule_broken|crashed|suspicious
// splits the work over two threads and joins them: right, but the task allows one
#include <thread>

#include "prefix.h"

namespace {
void part(const PrefixArgs& p, int64_t first, int64_t last) {
  for (int64_t i = first; i < last; ++i) {
    float state = p.start[i];
    for (int64_t t = 0; t < p.t; ++t)
      p.y[t * p.c + i] = state = p.a[t * p.c + i] * state + p.x[t * p.c + i];
    p.last[i] = state;
  }
}
}  // namespace

extern "C" int marathon_run(const MarathonArgs* args) {
  const PrefixArgs p = prefix_args(args);
  std::thread other([&] { part(p, 0, p.c / 2); });
  part(p, p.c / 2, p.c);
  other.join();
  return 0;
}
