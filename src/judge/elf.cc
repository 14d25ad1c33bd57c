#include "judge/elf.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <unordered_map>

namespace marathon {

namespace {

constexpr uint64_t page_bytes = 4096;
// Honest libraries have one or two constructors and some hundred symbols.
constexpr uint64_t max_hooks = 64, max_symbols = 1'000'000, max_name_bytes = 4096;

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
  // Entry i of a table of T.
  template <class T>
  Result<T> entry(uint64_t table, uint64_t i) const {
    if (table > bytes_.size()) return fail(Fault::invalid, "a table lies outside of the file");
    return at<T>(table + i * sizeof(T));  // i is bounded by its caller: no overflow
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
  const std::string_view rest = strings.substr(offset, max_name_bytes);
  return std::string(rest.substr(0, rest.find('\0')));
}

struct Range {
  uint64_t begin = 0, end = 0;
  bool holds(uint64_t address) const { return address >= begin && address < end; }
};

uint64_t overlap(const Range& a, const Range& b) {
  const uint64_t begin = std::max(a.begin, b.begin), end = std::min(a.end, b.end);
  return end > begin ? end - begin : 0;
}

class Parser {
 public:
  explicit Parser(std::string_view bytes) : reader_(bytes) {}

  Result<ElfFacts> run() {
    const Elf64_Ehdr header = TRY(reader_.at<Elf64_Ehdr>(0));
    if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
        header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB ||
        header.e_type != ET_DYN || header.e_phentsize != sizeof(Elf64_Phdr)) {
      return fail(Fault::invalid, "not a 64-bit shared object");
    }
    TRY(read_segments(header));
    TRY(read_sections(header));
    TRY(read_dynamic());
    for (const Elf64_Shdr& section : sections_) TRY(read_section(section));
    TRY(read_hooks());
    return std::move(facts_);
  }

 private:
  // ---- what the loader maps

  Status read_segments(const Elf64_Ehdr& header) {
    for (uint64_t i = 0; i < header.e_phnum; ++i) {
      const Elf64_Phdr segment = TRY(reader_.entry<Elf64_Phdr>(header.e_phoff, i));
      const Range range{segment.p_vaddr, segment.p_vaddr + segment.p_memsz};
      if (range.end < range.begin)
        return fail(Fault::invalid, "a segment of the shared object ends before it begins");
      const bool writes = segment.p_flags & PF_W, runs = segment.p_flags & PF_X;
      if (segment.p_type == PT_LOAD && writes) writable_.push_back(range);
      if (segment.p_type == PT_LOAD && runs)
        facts_.code.emplace_back(segment.p_offset, segment.p_filesz);
      if ((segment.p_type == PT_LOAD || segment.p_type == PT_GNU_STACK) && writes && runs)
        facts_.writable_code = true;
      if (segment.p_type == PT_TLS) facts_.writable_bytes += segment.p_memsz;
      if (segment.p_type == PT_DYNAMIC) dynamic_ = segment;
      // The loader closes whole pages only.
      if (segment.p_type == PT_GNU_RELRO)
        relro_ = {range.begin / page_bytes * page_bytes, range.end / page_bytes * page_bytes};
    }
    for (const Range& range : writable_)
      facts_.writable_bytes += range.end - range.begin - overlap(range, relro_);
    return {};
  }

  bool stays_writable(uint64_t address) const {
    return !relro_.holds(address) && std::any_of(writable_.begin(), writable_.end(),
                                                 [&](const Range& r) { return r.holds(address); });
  }

  Status read_sections(const Elf64_Ehdr& header) {
    if (header.e_shentsize != sizeof(Elf64_Shdr) || header.e_shstrndx >= header.e_shnum)
      return fail(Fault::invalid, "the shared object has no section names");
    for (uint64_t i = 0; i < header.e_shnum; ++i)
      sections_.push_back(TRY(reader_.entry<Elf64_Shdr>(header.e_shoff, i)));
    const Elf64_Shdr& names = sections_[header.e_shstrndx];
    names_ = TRY(reader_.part(names.sh_offset, names.sh_size));
    return {};
  }

  Status read_section(const Elf64_Shdr& section) {
    const std::string name = text_at(names_, section.sh_name);
    if (name == ".init") facts_.init_code_bytes += section.sh_size;
    if (name == ".fini") facts_.fini_code_bytes += section.sh_size;
    if (section.sh_type == SHT_DYNSYM) return read_symbols(section, facts_.dynamic);
    if (section.sh_type == SHT_SYMTAB) {
      facts_.has_symbol_table = true;
      return read_symbols(section, facts_.all);
    }
    return {};
  }

  Result<std::string_view> strings_of(const Elf64_Shdr& section) const {
    if (section.sh_link >= sections_.size())
      return fail(Fault::invalid, "a table of the shared object has no strings");
    return reader_.part(sections_[section.sh_link].sh_offset, sections_[section.sh_link].sh_size);
  }

  // The loader follows the dynamic segment and never looks at sections. Both must name the same
  // tables, or the symbols that we read are not the ones that it binds.
  Status read_dynamic() {
    const auto is_dynamic = [](const Elf64_Shdr& s) { return s.sh_type == SHT_DYNAMIC; };
    const auto section = std::find_if(sections_.begin(), sections_.end(), is_dynamic);
    if (section == sections_.end() || section->sh_offset != dynamic_.p_offset ||
        section->sh_size != dynamic_.p_filesz)
      return fail(Fault::invalid, "its dynamic section is not the one that the loader follows");
    const std::string_view strings = TRY(strings_of(*section));
    for (uint64_t i = 0; i < section->sh_size / sizeof(Elf64_Dyn); ++i) {
      const Elf64_Dyn entry = TRY(reader_.entry<Elf64_Dyn>(section->sh_offset, i));
      if (entry.d_tag == DT_NULL) return {};
      TRY(read_dynamic_entry(entry, *section, strings));
    }
    return {};
  }

  Status read_dynamic_entry(const Elf64_Dyn& entry, const Elf64_Shdr& section,
                            std::string_view strings) {
    const uint64_t value = entry.d_un.d_val;
    switch (entry.d_tag) {
      case DT_NEEDED:
        facts_.needed.push_back(text_at(strings, value));
        break;
      case DT_TEXTREL:
        facts_.text_relocations = true;
        break;
      case DT_FLAGS:
        facts_.text_relocations = facts_.text_relocations || (value & DF_TEXTREL);
        break;
      case DT_RPATH:
      case DT_RUNPATH:
      case DT_AUDIT:
      case DT_DEPAUDIT:
      case DT_FILTER:
      case DT_AUXILIARY:
        facts_.search_path = true;
        break;
      case DT_STRTAB:
        if (sections_[section.sh_link].sh_addr != value)
          return fail(Fault::invalid, "its strings are not the ones that the loader follows");
        break;
      case DT_SYMTAB:
        if (std::none_of(sections_.begin(), sections_.end(), [&](const Elf64_Shdr& s) {
              return s.sh_type == SHT_DYNSYM && s.sh_addr == value;
            }))
          return fail(Fault::invalid, "its symbols are not the ones that the loader follows");
        break;
      default:
        break;  // the rest says where relocations lie
    }
    return {};
  }

  Status read_symbols(const Elf64_Shdr& section, std::vector<ElfSymbol>& symbols) {
    const std::string_view strings = TRY(strings_of(section));
    const uint64_t count = section.sh_size / sizeof(Elf64_Sym);
    if (count > max_symbols) return fail(Fault::invalid, "it has more than a million symbols");
    for (uint64_t i = 1; i < count; ++i) {
      const Elf64_Sym entry = TRY(reader_.entry<Elf64_Sym>(section.sh_offset, i));
      const unsigned type = ELF64_ST_TYPE(entry.st_info);
      ElfSymbol symbol;
      symbol.name = text_at(strings, entry.st_name);
      symbol.address = entry.st_value;
      symbol.size = entry.st_size;
      symbol.defined = entry.st_shndx != SHN_UNDEF;
      symbol.function = type == STT_FUNC || type == STT_GNU_IFUNC;
      symbol.ifunc = type == STT_GNU_IFUNC;
      symbol.named = type != STT_SECTION && type != STT_FILE && !symbol.name.empty();
      const bool absolute = entry.st_shndx == SHN_ABS;
      symbol.writable =
          symbol.defined && !absolute && (type == STT_TLS || stays_writable(symbol.address));
      symbols.push_back(std::move(symbol));
    }
    return {};
  }

  // ---- what runs without being called

  Status read_hooks() {
    std::vector<std::pair<Range, std::vector<std::string>*>> arrays;
    for (const Elf64_Shdr& section : sections_) {
      const bool starts = section.sh_type == SHT_INIT_ARRAY || section.sh_type == SHT_PREINIT_ARRAY;
      if (!starts && section.sh_type != SHT_FINI_ARRAY) continue;
      if (section.sh_size / 8 > max_hooks)
        return fail(Fault::invalid, "it runs more than 64 functions while it is loaded");
      arrays.emplace_back(Range{section.sh_addr, section.sh_addr + section.sh_size},
                          starts ? &facts_.constructors : &facts_.destructors);
    }
    const std::unordered_map<uint64_t, uint64_t> targets = TRY(relocated_slots(arrays));
    for (const auto& [range, names] : arrays) {
      for (uint64_t slot = range.begin; slot < range.end; slot += 8) {
        const auto target = targets.find(slot);
        names->push_back(target == targets.end() ? "?" : function_at(target->second));
      }
    }
    return {};
  }

  // The entries of the arrays are filled by relative relocations: their addends are the functions.
  Result<std::unordered_map<uint64_t, uint64_t>> relocated_slots(
      const std::vector<std::pair<Range, std::vector<std::string>*>>& arrays) const {
    std::unordered_map<uint64_t, uint64_t> targets;
    for (const Elf64_Shdr& section : sections_) {
      if (section.sh_type != SHT_RELA) continue;
      const uint64_t count = section.sh_size / sizeof(Elf64_Rela);
      TRY(reader_.part(section.sh_offset, count * sizeof(Elf64_Rela)));
      for (uint64_t i = 0; i < count; ++i) {
        const Elf64_Rela entry = TRY(reader_.entry<Elf64_Rela>(section.sh_offset, i));
        const bool is_hook = std::any_of(arrays.begin(), arrays.end(), [&](const auto& array) {
          return array.first.holds(entry.r_offset);
        });
        if (is_hook) targets[entry.r_offset] = static_cast<uint64_t>(entry.r_addend);
      }
    }
    return targets;
  }

  std::string function_at(uint64_t address) const {
    for (const ElfSymbol& symbol : facts_.all) {
      if (symbol.defined && symbol.function && symbol.address == address) return symbol.name;
    }
    return "?";
  }

  Reader reader_;
  ElfFacts facts_;
  std::vector<Elf64_Shdr> sections_;
  std::vector<Range> writable_;
  Range relro_;
  Elf64_Phdr dynamic_{};
  std::string_view names_;
};

}  // namespace

Result<ElfFacts> read_elf(std::string_view bytes) { return Parser(bytes).run(); }

}  // namespace marathon
