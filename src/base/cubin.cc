#include "base/cubin.h"

#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace marathon {

namespace {

constexpr uint16_t machine_cuda = 190;  // EM_CUDA
constexpr int64_t max_library_object_bytes = 128;
constexpr uint8_t entry_flag = 0x10;  // of st_other: a __global__ function

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  Result<CubinFacts> read() {
    Elf64_Ehdr header;
    if (!copy(0, header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
        header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != machine_cuda)
      return fail(Fault::invalid, "a cubin is no 64-bit ELF file for CUDA");
    if (header.e_shentsize != sizeof(Elf64_Shdr)) return damaged();
    sections_.resize(header.e_shnum);
    for (size_t i = 0; i < sections_.size(); ++i) {
      if (!copy(header.e_shoff + i * sizeof(Elf64_Shdr), sections_[i])) return damaged();
    }
    if (header.e_shstrndx >= sections_.size()) return damaged();
    const Elf64_Shdr& names = sections_[header.e_shstrndx];
    for (const Elf64_Shdr& section : sections_)
      section_names_.push_back(text(names, section.sh_name));
    for (const Elf64_Shdr& section : sections_) {
      if (section.sh_type == SHT_SYMTAB && !read_symbols(section)) return damaged();
    }
    constexpr std::string_view info = ".nv.info.";
    for (size_t i = 0; i < sections_.size(); ++i) {
      if (section_names_[i].starts_with(info) && sections_[i].sh_type != SHT_NOBITS)
        read_info(sections_[i], section_names_[i].substr(info.size()));
    }
    return std::move(facts_);
  }

 private:
  static Result<CubinFacts> damaged() {
    return fail(Fault::invalid, "a cubin contradicts itself: build it again");
  }

  template <class T>
  bool copy(uint64_t at, T& to) const {
    if (at > bytes_.size() || sizeof to > bytes_.size() - at) return false;
    std::memcpy(&to, bytes_.data() + at, sizeof to);
    return true;
  }

  std::string text(const Elf64_Shdr& strings, uint64_t at) const {
    if (strings.sh_offset > bytes_.size() || strings.sh_size > bytes_.size() - strings.sh_offset ||
        at >= strings.sh_size)
      return "";
    const std::string_view all = bytes_.substr(strings.sh_offset, strings.sh_size);
    return std::string(all.substr(at, all.find('\0', at) - at));
  }

  bool read_symbols(const Elf64_Shdr& table) {
    if (table.sh_entsize != sizeof(Elf64_Sym) || table.sh_link >= sections_.size()) return false;
    const Elf64_Shdr& strings = sections_[table.sh_link];
    for (uint64_t at = 0; at + sizeof(Elf64_Sym) <= table.sh_size; at += sizeof(Elf64_Sym)) {
      Elf64_Sym symbol;
      if (!copy(table.sh_offset + at, symbol)) return false;
      add(symbol, text(strings, symbol.st_name));
    }
    return true;
  }

  void add(const Elf64_Sym& symbol, const std::string& name) {
    const int type = ELF64_ST_TYPE(symbol.st_info);
    if (symbol.st_shndx == SHN_UNDEF) {
      if (type == STT_FUNC && !name.empty()) facts_.undefined.push_back(name);
      return;
    }
    if (type == STT_FUNC && (symbol.st_other & entry_flag)) facts_.kernels.push_back(name);
    if (symbol.st_shndx >= sections_.size() || type == STT_SECTION) return;
    const bool is_global = section_names_[symbol.st_shndx].starts_with(".nv.global");
    if (!is_global || is_message(symbol, name)) return;
    if (is_library_object(symbol, name))
      ++facts_.library_object_bytes;
    else
      facts_.global_variables.push_back(name);
  }

  // A tag that a header of the toolkit declares: one byte, which nobody reads.
  static bool is_library_object(const Elf64_Sym& symbol, std::string_view name) {
    if (symbol.st_size != 1 || !name.starts_with("_ZN")) return false;
    for (const std::string_view space : {"4cuda3std", "6thrust", "3cub"}) {
      if (name.find(space) != std::string_view::npos) return true;
    }
    return false;
  }

  // .nv.info.KERNEL: {format, attribute, 16 bits}, and as many bytes behind it when the format says
  // so.
  void read_info(const Elf64_Shdr& section, const std::string& kernel) {
    constexpr uint8_t sized = 4, max_threads = 5;
    uint64_t at = section.sh_offset;
    if (at > bytes_.size() || section.sh_size > bytes_.size() - at) return;
    const uint64_t end = at + section.sh_size;
    struct Entry {
      uint8_t format, attribute;
      uint16_t value;
    } entry{};
    while (at + sizeof entry <= end && copy(at, entry)) {
      at += sizeof entry;
      uint32_t block[3];
      if (entry.format == sized && entry.attribute == max_threads && entry.value == sizeof block &&
          copy(at, block))
        facts_.max_threads[kernel] = int64_t{block[0]} * block[1] * block[2];
      if (entry.format == sized) at += entry.value;
    }
  }

  // A text of printf or of an assertion: so named by the compilers ($str by nvcc, _$_str by LLVM),
  // and printable to its end.
  bool is_message(const Elf64_Sym& symbol, std::string_view name) const {
    const Elf64_Shdr& section = sections_[symbol.st_shndx];
    if (!name.starts_with("$str") && !name.starts_with("_$_str")) return false;
    if (section.sh_type != SHT_PROGBITS || symbol.st_size == 0 ||
        section.sh_offset > bytes_.size() || symbol.st_value > section.sh_size ||
        symbol.st_size > section.sh_size - symbol.st_value ||
        section.sh_size > bytes_.size() - section.sh_offset)
      return false;
    const std::string_view text =
        bytes_.substr(section.sh_offset + symbol.st_value, symbol.st_size);
    return text.back() == '\0' && text.size() > 1 &&
           std::all_of(text.begin(), text.end() - 1,
                       [](char c) { return (c >= ' ' && c <= '~') || c == '\n' || c == '\t'; });
  }

  std::string_view bytes_;
  std::vector<Elf64_Shdr> sections_;
  std::vector<std::string> section_names_;
  CubinFacts facts_;
};

// Functions that the driver itself brings to every module.
bool is_of_the_driver(const std::string& name) {
  return name == "vprintf" || name == "malloc" || name == "free" || name == "__assertfail" ||
         name.starts_with("$");
}

}  // namespace

Result<CubinFacts> read_cubin(std::string_view bytes) { return Reader(bytes).read(); }

std::string broken_cubin_rule(const CubinFacts& facts) {
  if (!facts.global_variables.empty())
    return fmt::format(
        "the variable '{}' in global memory could carry something from call to call: "
        "use __constant__, shared memory or the workspace",
        facts.global_variables.front());
  // A candidate could write to them, and name others so: what fits there is no answer to anything.
  if (facts.library_object_bytes > max_library_object_bytes)
    return fmt::format(
        "{} bytes of global memory are in the name of the toolkit's headers; they have "
        "less: use the workspace",
        facts.library_object_bytes);
  for (const std::string& name : facts.undefined) {
    if (name == "malloc" || name == "free")
      return fmt::format("a kernel calls {}: device memory may come from the workspace only", name);
    if (!is_of_the_driver(name))
      return fmt::format(
          "a kernel calls {}, which this build does not hold (launches from the "
          "device and separate compilation are not allowed)",
          name);
  }
  return "";
}

}  // namespace marathon
