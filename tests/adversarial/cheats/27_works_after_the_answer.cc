// expect: rule_broken|crashed|wrong|suspicious
// a thread computes while marathon_run has long returned
#include <thread>

#include "prefix.h"

extern "C" int marathon_run(const MarathonArgs* args) {
  const PrefixArgs p = prefix_args(args);
  std::thread([p] { prefix_plain(p); }).detach();
  return 0;
}
