// expect: timed_out|crashed|rule_broken
// ignores every signal that can be ignored and loops
#include <csignal>

#include "prefix.h"

extern "C" int marathon_run(const MarathonArgs* args) {
  const MarathonArgs* volatile keep = args;  // read in every round: the loop may not be removed
  for (int number = 1; number < 64; ++number) std::signal(number, SIG_IGN);
  while (keep != nullptr) {
  }
  return 0;
}
