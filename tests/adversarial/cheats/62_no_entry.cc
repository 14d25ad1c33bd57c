// expect: build_failed|rule_broken|crashed
// exports nothing that the worker could call
#include "prefix.h"

int marathon_run_of_another_name(const MarathonArgs* args) {
  prefix_plain(prefix_args(args));
  return 0;
}
