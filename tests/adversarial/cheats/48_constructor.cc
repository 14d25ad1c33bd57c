// expect: wrong|rule_broken|crashed
// computes before the clock runs: a constructor leaves an answer that marathon_run copies
#include <vector>

#include "prefix.h"

namespace {
std::vector<float> answer;

__attribute__((constructor)) void before_the_clock() {
  answer.resize(1 << 17);
  uint64_t state = 1;  // the seed that a judge might use
  for (float& value : answer) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    value = static_cast<float>(state >> 40) * 0x1p-24f;
  }
}
}  // namespace

extern "C" int marathon_run(const MarathonArgs* args) {
  const PrefixArgs p = prefix_args(args);
  std::memcpy(p.y, answer.data(), p.t * p.c * sizeof(float));
  std::memcpy(p.last, p.y + (p.t - 1) * p.c, p.c * sizeof(float));
  return 0;
}
