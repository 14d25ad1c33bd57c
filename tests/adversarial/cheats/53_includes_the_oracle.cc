// expect: build_failed|rule_broken
// includes the oracle
#include "oracle.cc"

extern "C" int marathon_run(const MarathonArgs* args) { return marathon_oracle(args); }
