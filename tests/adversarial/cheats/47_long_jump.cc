// expect: rule_broken|crashed|timed_out
// jumps into a frame that is gone, to come out behind the check
#include <csetjmp>

#include "prefix.h"

namespace {
std::jmp_buf place;
__attribute__((noinline)) int remember() { return setjmp(place); }
}  // namespace

extern "C" int marathon_run(const MarathonArgs* args) {
  prefix_zeros(prefix_args(args));
  if (remember() == 0) std::longjmp(place, 1);
  asm volatile("mov $16, %%rdi; mov (%%rdi), %%rax" ::: "rax", "rdi");
  return 0;
}
