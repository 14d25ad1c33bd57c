// What a shared object is made of, read without believing it: every offset is checked. 64-bit
// little-endian x86-64 and AArch64. Inside of judge/ only.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace marathon {

struct ElfSymbol {
  std::string name;
  uint64_t address = 0, size = 0;
  bool defined = false, object = false, weak = false, writable = false;
};

struct ElfFacts {
  std::vector<std::string> needed;        // DT_NEEDED
  std::vector<ElfSymbol> dynamic, all;    // .dynsym, .symtab
  std::vector<std::string> constructors;  // .init_array: names of the functions, "?" when unknown
  uint64_t writable_bytes = 0;            // .data, .bss and thread-local sections
  bool text_relocations = false, writable_code = false;
};

// Error invalid when it is no such file or contradicts itself.
Result<ElfFacts> read_elf(std::string_view bytes);

}  // namespace marathon
