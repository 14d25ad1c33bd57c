#include "judge/elf.h"

#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace marathon {

namespace {

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  template <class T>
  Result<T> at(uint64_t offset) const {
    if (offset > bytes_.size() || bytes_.size() - offset < sizeof(T))
      return fail(Fault::invalid, "the shared object is cut short");
    T value;
    std::memcpy(&value, bytes_.data() + offset, sizeof value);
    return value;
  }
  Result<std::string_view> part(uint64_t offset, uint64_t size) const {
    if (offset > bytes_.size() || bytes_.size() - offset < size)
      return fail(Fault::invalid, "a section of the shared object lies outside of it");
    return bytes_.substr(offset, size);
  }

 private:
  std::string_view bytes_;
};

std::string text_at(std::string_view strings, uint64_t offset) {
  if (offset >= strings.size()) return "?";
  const std::string_view rest = strings.substr(offset);
  return std::string(rest.substr(0, rest.find('\0')));
}

class Parser {
 public:
  explicit Parser(std::string_view bytes) : reader_(bytes) {}

  Result<ElfFacts> run() {
    const Elf64_Ehdr header = TRY(reader_.at<Elf64_Ehdr>(0));
    if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
        header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_type != ET_DYN) {
      return fail(Fault::invalid, "not a 64-bit shared object");
    }
    TRY(read_segments(header));
    TRY(read_sections(header));
    for (const Elf64_Shdr& section : sections_) TRY(read_section(section));
    TRY(read_constructors());
    return std::move(facts_);
  }

 private:
  Status read_segments(const Elf64_Ehdr& header) {
    for (uint64_t i = 0; i < header.e_phnum; ++i) {
      const Elf64_Phdr segment =
          TRY(reader_.at<Elf64_Phdr>(header.e_phoff + i * sizeof(Elf64_Phdr)));
      const bool both = (segment.p_flags & PF_W) && (segment.p_flags & PF_X);
      if (both && (segment.p_type == PT_LOAD || segment.p_type == PT_GNU_STACK))
        facts_.writable_code = true;
    }
    return {};
  }

  Status read_sections(const Elf64_Ehdr& header) {
    for (uint64_t i = 0; i < header.e_shnum; ++i) {
      sections_.push_back(TRY(reader_.at<Elf64_Shdr>(header.e_shoff + i * sizeof(Elf64_Shdr))));
    }
    if (header.e_shstrndx >= sections_.size())
      return fail(Fault::invalid, "the shared object has no section names");
    const Elf64_Shdr& names = sections_[header.e_shstrndx];
    names_ = TRY(reader_.part(names.sh_offset, names.sh_size));
    return {};
  }

  std::string name_of(const Elf64_Shdr& section) const { return text_at(names_, section.sh_name); }

  Status read_section(const Elf64_Shdr& section) {
    const std::string name = name_of(section);
    const bool data = (section.sh_flags & SHF_WRITE) && (section.sh_flags & SHF_ALLOC) &&
                      (section.sh_type == SHT_PROGBITS || section.sh_type == SHT_NOBITS);
    // Made read-only by the loader (RELRO) before any of the candidate's calls.
    const bool relro =
        name == ".data.rel.ro" || name == ".got" || name == ".got.plt" || name == ".tm_clone_table";
    if (data && !relro) facts_.writable_bytes += section.sh_size;
    if (section.sh_type == SHT_DYNAMIC) return read_dynamic(section);
    if (section.sh_type == SHT_DYNSYM) return read_symbols(section, facts_.dynamic);
    if (section.sh_type == SHT_SYMTAB) return read_symbols(section, facts_.all);
    return {};
  }

  Result<std::string_view> strings_of(const Elf64_Shdr& section) const {
    if (section.sh_link >= sections_.size())
      return fail(Fault::invalid, "a table of the shared object has no strings");
    return reader_.part(sections_[section.sh_link].sh_offset, sections_[section.sh_link].sh_size);
  }

  Status read_dynamic(const Elf64_Shdr& section) {
    const std::string_view strings = TRY(strings_of(section));
    for (uint64_t i = 0; i < section.sh_size / sizeof(Elf64_Dyn); ++i) {
      const Elf64_Dyn entry = TRY(reader_.at<Elf64_Dyn>(section.sh_offset + i * sizeof(Elf64_Dyn)));
      if (entry.d_tag == DT_NULL) return {};
      if (entry.d_tag == DT_NEEDED) facts_.needed.push_back(text_at(strings, entry.d_un.d_val));
      if (entry.d_tag == DT_TEXTREL || (entry.d_tag == DT_FLAGS && (entry.d_un.d_val & DF_TEXTREL)))
        facts_.text_relocations = true;
    }
    return {};
  }

  Status read_symbols(const Elf64_Shdr& section, std::vector<ElfSymbol>& symbols) {
    const std::string_view strings = TRY(strings_of(section));
    for (uint64_t i = 1; i < section.sh_size / sizeof(Elf64_Sym); ++i) {
      const Elf64_Sym entry = TRY(reader_.at<Elf64_Sym>(section.sh_offset + i * sizeof(Elf64_Sym)));
      ElfSymbol symbol;
      symbol.name = text_at(strings, entry.st_name);
      symbol.address = entry.st_value;
      symbol.size = entry.st_size;
      symbol.defined = entry.st_shndx != SHN_UNDEF;
      const unsigned type = ELF64_ST_TYPE(entry.st_info);
      symbol.object = type == STT_OBJECT || type == STT_TLS;
      symbol.weak = ELF64_ST_BIND(entry.st_info) == STB_WEAK;
      if (entry.st_shndx < sections_.size() && symbol.defined) {
        const Elf64_Shdr& home = sections_[entry.st_shndx];
        symbol.writable = (home.sh_flags & SHF_WRITE) && name_of(home) != ".data.rel.ro";
      }
      symbols.push_back(std::move(symbol));
    }
    return {};
  }

  // The entries of .init_array are filled by relative relocations: their addends are the functions.
  Status read_constructors() {
    for (const Elf64_Shdr& section : sections_) {
      if (section.sh_type != SHT_INIT_ARRAY && section.sh_type != SHT_PREINIT_ARRAY) continue;
      for (uint64_t at = section.sh_addr;
           at + 8 <= section.sh_addr + std::min<uint64_t>(section.sh_size, 1 << 16); at += 8) {
        facts_.constructors.push_back(TRY(function_behind(at)));
      }
    }
    return {};
  }

  Result<std::string> function_behind(uint64_t slot) {
    for (const Elf64_Shdr& section : sections_) {
      if (section.sh_type != SHT_RELA) continue;
      for (uint64_t i = 0; i < section.sh_size / sizeof(Elf64_Rela); ++i) {
        const Elf64_Rela entry =
            TRY(reader_.at<Elf64_Rela>(section.sh_offset + i * sizeof(Elf64_Rela)));
        if (entry.r_offset == slot) return name_at(static_cast<uint64_t>(entry.r_addend));
      }
    }
    return std::string("?");
  }

  std::string name_at(uint64_t address) const {
    for (const ElfSymbol& symbol : facts_.all) {
      if (symbol.defined && !symbol.object && symbol.address == address && !symbol.name.empty())
        return symbol.name;
    }
    return "?";
  }

  Reader reader_;
  ElfFacts facts_;
  std::vector<Elf64_Shdr> sections_;
  std::string_view names_;
};

}  // namespace

Result<ElfFacts> read_elf(std::string_view bytes) { return Parser(bytes).run(); }

}  // namespace marathon
