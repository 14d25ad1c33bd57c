// expect: crashed
// throws through the worker
#include "prefix.h"

extern "C" int marathon_run(const MarathonArgs* args) {
  (void)args;
  throw 42;
}
