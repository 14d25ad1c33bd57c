// expect: crashed|wrong|rule_broken|suspicious|timed_out
// makes the code of memcmp and write writable and turns them into a return
#include <sys/mman.h>
#include <unistd.h>

#include "prefix.h"

namespace {
void patch(void* function) {
  const uintptr_t page = reinterpret_cast<uintptr_t>(function) & ~uintptr_t{4095};
  if (mprotect(reinterpret_cast<void*>(page), 8192, PROT_READ | PROT_WRITE | PROT_EXEC) != 0)
    return;
  const unsigned char code[] = {0x31, 0xc0, 0xc3};  // xor eax, eax; ret
  std::memcpy(function, code, sizeof code);
}
}  // namespace

extern "C" int marathon_run(const MarathonArgs* args) {
  prefix_zeros(prefix_args(args));
  patch(reinterpret_cast<void*>(&write));
  patch(reinterpret_cast<void*>(&memcmp));
  return 0;
}
