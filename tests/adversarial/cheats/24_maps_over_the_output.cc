// expect: wrong|crashed|rule_broken|suspicious
// puts its own pages where the output lies and keeps the answer there from call to call
#include <sys/mman.h>

#include "prefix.h"

namespace {
void* mapped = nullptr;
}

extern "C" int marathon_run(const MarathonArgs* args) {
  const PrefixArgs p = prefix_args(args);
  const uintptr_t page = reinterpret_cast<uintptr_t>(p.y) & ~uintptr_t{4095};
  void* at = reinterpret_cast<void*>(page);
  if (mapped == at) return 0;
  mapped = mmap(at, p.t * p.c * sizeof(float) + 4096, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  prefix_plain(p);
  return 0;
}
