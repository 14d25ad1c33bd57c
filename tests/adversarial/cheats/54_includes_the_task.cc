// expect: build_failed|rule_broken
// takes the hidden shapes into the binary at compile time
#include "prefix.h"

asm(".section .rodata\nhidden: .incbin \"../task.toml\"\n.byte 0\n.text");
extern "C" const char hidden[];

extern "C" int marathon_run(const MarathonArgs* args) {
  const PrefixArgs p = prefix_args(args);
  if (std::strstr(hidden, "hidden") == nullptr) return 1;
  prefix_plain(p);
  return 0;
}
