// expect: crashed|wrong|rule_broken|suspicious
// the same with clone as a bare system call, invisible in the symbol table
#include "prefix.h"

namespace {
alignas(4096) char stack[1 << 16];
PrefixArgs job;

void work() {
  prefix_plain(job);
  asm volatile("syscall" ::"a"(60), "D"(0) : "rcx", "r11", "memory");
  __builtin_unreachable();
}
}  // namespace

extern "C" int marathon_run(const MarathonArgs* args) {
  job = prefix_args(args);
  void** top = reinterpret_cast<void**>(stack + sizeof stack) - 2;
  *top = reinterpret_cast<void*>(&work);
  const long flags = 0x100 | 0x200 | 0x400 | 0x800 | 0x10000;  // VM FS FILES SIGHAND THREAD
  long result;
  // the child starts with an empty register file but for its stack: it returns into work()
  asm volatile("syscall; test %%rax, %%rax; jnz 1f; ret; 1:"
               : "=a"(result)
               : "a"(56), "D"(flags), "S"(top), "d"(0)
               : "rcx", "r11", "memory");
  return result > 0 ? 0 : 1;
}
