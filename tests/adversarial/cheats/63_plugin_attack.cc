// expect: build_failed|rule_broken
// does not compile
#include "prefix.h"

#pragma GCC poison marathon_run

extern "C" int marathon_run(const MarathonArgs* args) { prefix_plain(prefix_args(args)) }
