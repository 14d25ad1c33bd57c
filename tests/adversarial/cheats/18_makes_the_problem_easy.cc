// expect: suspicious|wrong|crashed
// sets the inputs to zero, so that zeros are the answer if the check comes later
#include "prefix.h"

extern "C" int marathon_run(const MarathonArgs* args) {
  const PrefixArgs p = prefix_args(args);
  std::memset(const_cast<float*>(p.x), 0, p.t * p.c * sizeof(float));
  std::memset(const_cast<float*>(p.start), 0, p.c * sizeof(float));
  prefix_zeros(p);
  return 0;
}
