#include "base/cubin.h"

#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

namespace marathon {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct Symbol {
  std::string name;
  int type = STT_OBJECT;
  uint8_t other = 0;
  uint16_t section = 1;
  uint64_t value = 0, size = 4;
};

// A cubin by hand: section 1 is .nv.global.init with `content`, 2 the symbols, 3 their names.
std::string cubin_of(const std::vector<Symbol>& symbols, const std::string& content) {
  std::string names(1, '\0'), section_names(1, '\0'), table(sizeof(Elf64_Sym), '\0');
  for (const Symbol& symbol : symbols) {
    Elf64_Sym entry = {};
    entry.st_name = static_cast<uint32_t>(names.size());
    entry.st_info = static_cast<uint8_t>(ELF64_ST_INFO(STB_GLOBAL, symbol.type));
    entry.st_other = symbol.other;
    entry.st_shndx = symbol.section;
    entry.st_value = symbol.value;
    entry.st_size = symbol.size;
    table.append(reinterpret_cast<const char*>(&entry), sizeof entry);
    names += symbol.name + '\0';
  }
  std::string file(sizeof(Elf64_Ehdr), '\0');
  std::vector<Elf64_Shdr> sections(1);
  const auto add = [&](const char* name, uint32_t type, const std::string& bytes, uint32_t link) {
    Elf64_Shdr section = {};
    section.sh_name = static_cast<uint32_t>(section_names.size());
    section_names += std::string(name) + '\0';
    section.sh_type = type;
    section.sh_offset = file.size();
    section.sh_size = bytes.size();
    section.sh_link = link;
    section.sh_entsize = type == SHT_SYMTAB ? sizeof(Elf64_Sym) : 0;
    file += bytes;
    sections.push_back(section);
  };
  add(".nv.global.init", SHT_PROGBITS, content, 0);
  add(".symtab", SHT_SYMTAB, table, 3);
  add(".strtab", SHT_STRTAB, names, 0);
  section_names += std::string(".shstrtab") + '\0';
  add("", SHT_STRTAB, section_names, 0);
  Elf64_Ehdr header = {};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_machine = 190;
  header.e_shoff = file.size();
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = static_cast<uint16_t>(sections.size());
  header.e_shstrndx = 4;
  std::memcpy(file.data(), &header, sizeof header);
  file.append(reinterpret_cast<const char*>(sections.data()), sections.size() * sizeof(Elf64_Shdr));
  return file;
}

CubinFacts facts_of(const std::vector<Symbol>& symbols, const std::string& content = "ab\n") {
  Result<CubinFacts> facts = read_cubin(cubin_of(symbols, content + '\0'));
  EXPECT_TRUE(facts) << (facts ? "" : facts.error().what);
  return facts ? *facts : CubinFacts();
}

TEST(Cubin, KernelsAndWhatTheyCall) {
  const CubinFacts facts = facts_of({{"scale", STT_FUNC, 0x10, 2},
                                     {"helper", STT_FUNC, 0, 2},
                                     {"vprintf", STT_FUNC, 0, SHN_UNDEF}});
  EXPECT_THAT(facts.kernels, ElementsAre("scale"));
  EXPECT_THAT(facts.undefined, ElementsAre("vprintf"));
  EXPECT_EQ(broken_cubin_rule(facts), "");
}

TEST(Cubin, AGlobalVariableIsRefusedByName) {
  EXPECT_THAT(broken_cubin_rule(facts_of({{"counter"}})), HasSubstr("'counter'"));
  EXPECT_THAT(broken_cubin_rule(facts_of({{"malloc", STT_FUNC, 0, SHN_UNDEF}})),
              HasSubstr("malloc"));
  EXPECT_THAT(broken_cubin_rule(facts_of({{"cudaLaunchDevice", STT_FUNC, 0, SHN_UNDEF}})),
              HasSubstr("launches from the device"));
}

TEST(Cubin, TextsOfPrintfAreNoState) {
  EXPECT_THAT(facts_of({{"$str"}, {"_$_str_7"}}).global_variables, IsEmpty());
  // What is only named so is a variable all the same.
  EXPECT_THAT(facts_of({{"$str"}}, std::string("\1\2\3")).global_variables, ElementsAre("$str"));
  EXPECT_THAT(facts_of({{"$str", STT_OBJECT, 0, 1, 0, 99}}).global_variables, ElementsAre("$str"));
}

TEST(Cubin, TagsOfTheToolkitsHeadersAreNoState) {
  std::vector<Symbol> symbols = {{"_ZN9_INTERNAL4cuda3std3__48in_placeE", STT_OBJECT, 0, 1, 0, 1}};
  EXPECT_THAT(facts_of(symbols).global_variables, IsEmpty());
  EXPECT_EQ(facts_of(symbols).library_object_bytes, 1);
  EXPECT_EQ(broken_cubin_rule(facts_of(symbols)), "");
  symbols.assign(200, symbols.front());
  EXPECT_THAT(broken_cubin_rule(facts_of(symbols)), HasSubstr("200 bytes"));
  symbols = {{"_ZN4cuda3std7counterE", STT_OBJECT, 0, 1, 0, 4}};
  EXPECT_THAT(facts_of(symbols).global_variables, ElementsAre("_ZN4cuda3std7counterE"));
}

TEST(Cubin, DamageIsSaid) {
  const std::string good = cubin_of({{"counter"}}, "abc");
  for (size_t length = 0; length < good.size(); length += 7)
    EXPECT_FALSE(read_cubin(good.substr(0, length)));
  EXPECT_FALSE(read_cubin("no ELF"));
}

}  // namespace
}  // namespace marathon
