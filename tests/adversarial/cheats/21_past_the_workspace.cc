// expect: wrong|crashed
// asks for less workspace than it writes
#include "prefix.h"

extern "C" int64_t marathon_workspace_bytes(const int64_t*, int64_t) { return 64; }

extern "C" int marathon_run(const MarathonArgs* args) {
  const PrefixArgs p = prefix_args(args);
  std::memset(args->workspace, 0, 64 + sizeof(float));
  prefix_plain(p);
  return 0;
}
