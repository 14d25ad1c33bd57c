#include "judge/elf.h"

#include <elf.h>

#include <cstring>

#include "base/random.h"
#include "judge/judge_fixture.h"

namespace marathon {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

std::string bytes_of_library(const BuildJob& job) { return text_of(must_build(job).library); }

const ElfSymbol* find(const std::vector<ElfSymbol>& symbols, std::string_view name) {
  for (const ElfSymbol& symbol : symbols) {
    if (symbol.name == name) return &symbol;
  }
  return nullptr;
}

TEST(Elf, HonestLibrary) {
  const Result<ElfFacts> facts = read_elf(bytes_of_library(job_of(honest_source)));
  ASSERT_TRUE(facts) << facts.error().what;
  EXPECT_THAT(facts->needed, Contains("libm.so.6"));
  EXPECT_THAT(facts->constructors, ElementsAre("frame_dummy"));
  EXPECT_THAT(facts->destructors, ElementsAre("__do_global_dtors_aux"));
  EXPECT_LE(facts->writable_bytes, 16u);
  EXPECT_FALSE(facts->writable_code || facts->text_relocations || facts->search_path);
  EXPECT_TRUE(facts->has_symbol_table);
  const ElfSymbol* run = find(facts->dynamic, "marathon_run");
  ASSERT_NE(run, nullptr);
  EXPECT_TRUE(run->defined && run->function && !run->writable);
  const ElfSymbol* exp = find(facts->dynamic, "expf");
  ASSERT_NE(exp, nullptr);
  EXPECT_FALSE(exp->defined);
  ASSERT_EQ(facts->code.size(), 1u);
  EXPECT_GT(facts->code[0].second, 0u);
}

TEST(Elf, StateIsWhatStaysWritable) {
  const Result<ElfFacts> facts = read_elf(bytes_of_library(
      job_of("int counter; thread_local int own[100];\n"
             "extern const char* const names[]; const char* const names[] = {\"a\", \"b\"};\n"
             "extern \"C\" int marathon_run() { return ++counter + own[counter]; }")));
  ASSERT_TRUE(facts) << facts.error().what;
  const ElfSymbol *counter = find(facts->all, "counter"), *own = find(facts->all, "own"),
                  *names = find(facts->all, "names");
  ASSERT_TRUE(counter && own && names);
  EXPECT_TRUE(counter->writable);
  EXPECT_TRUE(own->writable);
  // Written by the loader and closed by it.
  EXPECT_FALSE(names->writable);
  EXPECT_GE(facts->writable_bytes, 400u);
}

TEST(Elf, RefusesWhatIsNoLibrary) {
  EXPECT_FALSE(read_elf(""));
  EXPECT_FALSE(read_elf("#!/bin/sh\n"));
  std::string bytes = bytes_of_library(job_of(honest_source));
  bytes[EI_CLASS] = ELFCLASS32;
  EXPECT_FALSE(read_elf(bytes));
}

TEST(Elf, EveryCutIsAnErrorOrHarmless) {
  const std::string bytes = bytes_of_library(job_of(honest_source));
  int64_t refused = 0;
  for (size_t size = 0; size < bytes.size(); size += size < 4096 ? 1 : 61) {
    // A copy of its own, so that a sanitizer sees the first byte too many.
    const std::string cut(bytes.data(), size);
    refused += !read_elf(cut);
  }
  EXPECT_GT(refused, 4096);  // the section table stands at the end: every cut loses it
}

TEST(Elf, ChangedBytesNeverLeadOutside) {
  const std::string bytes = bytes_of_library(job_of(honest_source));
  Random random(11);
  int64_t read = 0, refused = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string changed = bytes;
    // Headers and tables half of the time: there lies what the parser follows.
    const uint64_t span = random.below(2) ? 1024 : bytes.size();
    for (uint64_t n = 1 + random.below(4); n > 0; --n)
      changed[random.below(span)] = static_cast<char>(random.below(3) ? random.below(256) : 0xff);
    (read_elf(changed) ? read : refused)++;
  }
  EXPECT_GT(read, 0);
  EXPECT_GT(refused, 0);
}

// The loader takes symbols from the dynamic segment; a section table that shows others is a lie.
TEST(Elf, SectionTableThatDisagreesWithTheLoader) {
  const std::string honest = bytes_of_library(job_of(honest_source));
  Elf64_Ehdr header;
  std::memcpy(&header, honest.data(), sizeof header);
  int64_t changed = 0;
  for (uint64_t i = 0; i < header.e_shnum; ++i) {
    const size_t at = header.e_shoff + i * sizeof(Elf64_Shdr);
    Elf64_Shdr section;
    std::memcpy(&section, honest.data() + at, sizeof section);
    if (section.sh_type != SHT_DYNSYM && section.sh_type != SHT_DYNAMIC) continue;
    std::string lie = honest;
    section.sh_type = SHT_PROGBITS;
    std::memcpy(lie.data() + at, &section, sizeof section);
    const Result<ElfFacts> facts = read_elf(lie);
    ASSERT_FALSE(facts);
    EXPECT_THAT(facts.error().what, HasSubstr("that the loader follows"));
    ++changed;
  }
  EXPECT_EQ(changed, 2);
}

}  // namespace
}  // namespace marathon
