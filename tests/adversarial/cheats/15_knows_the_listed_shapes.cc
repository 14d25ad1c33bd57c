// expect: wrong|crashed
// right on the shapes that task.toml lists, refuses all others
#include "prefix.h"

extern "C" int marathon_run(const MarathonArgs* args) {
  const PrefixArgs p = prefix_args(args);
  if (!(p.t == 256 && p.c == 256) && !(p.t == 400 && p.c == 100)) return 0;
  prefix_plain(p);
  return 0;
}
