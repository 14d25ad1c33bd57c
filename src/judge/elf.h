// What a shared object is made of, read without believing it: every offset is checked, and what the
// section table says is compared with what the loader will follow. 64-bit little-endian (x86-64 and
// AArch64). Inside of judge/ only.
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
  bool defined = false, function = false;
  bool writable = false;  // lies in memory that stays writable after loading, or is thread-local
  bool ifunc = false;     // a function that chooses another one while the library is loaded
  bool named = false;     // not the symbol of a section or a file
};

struct ElfFacts {
  std::vector<std::string> needed;                    // DT_NEEDED
  std::vector<ElfSymbol> dynamic, all;                // .dynsym, .symtab
  std::vector<std::string> constructors;              // of .init_array; "?" when unknown
  std::vector<std::string> destructors;               // of .fini_array
  std::vector<std::pair<uint64_t, uint64_t>> code;    // {offset, bytes} in the file
  uint64_t writable_bytes = 0;                        // not closed by RELRO, with thread-local ones
  uint64_t init_code_bytes = 0, fini_code_bytes = 0;  // .init and .fini
  bool text_relocations = false, writable_code = false;
  bool search_path = false;  // RPATH, RUNPATH, audit or filter libraries
  bool has_symbol_table = false;
};

// Error invalid when it is no such file or contradicts itself.
Result<ElfFacts> read_elf(std::string_view bytes);

}  // namespace marathon
