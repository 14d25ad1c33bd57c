#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/random.h"
#include "base/result.h"

namespace marathon {
namespace {

Result<int> half(int value) {
  if (value % 2 != 0) return fail(Fault::invalid, "odd");
  return value / 2;
}
Result<int> quarter(int value) { return TRY(half(TRY(half(value)))); }

TEST(Result, TryReturnsTheFirstError) {
  EXPECT_EQ(*quarter(8), 2);
  EXPECT_EQ(quarter(6).error().what, "odd");
}

TEST(Result, ErrnoTellsWhatTheCallerCanDo) {
  EXPECT_EQ(fail_errno("x", ENOSPC).value().fault, Fault::no_space);
  EXPECT_EQ(fail_errno("x", EDQUOT).value().fault, Fault::no_space);
  EXPECT_EQ(fail_errno("x", ENOENT).value().fault, Fault::not_found);
  EXPECT_EQ(fail_errno("x", EIO).value().fault, Fault::system);
}

TEST(Json, SaysWhereTheTextIsWrong) {
  const Result<Json> parsed = parse_json("{\n  \"a\": 1,\n  b\n}");
  ASSERT_FALSE(parsed);
  EXPECT_NE(parsed.error().what.find("line 3"), std::string::npos) << parsed.error().what;
}

TEST(Json, RefusesDeepNestingInsteadOfOverflowingTheStack) {
  EXPECT_FALSE(parse_json(std::string(1'000'000, '[')));
  EXPECT_TRUE(parse_json(std::string(100, '[') + std::string(100, ']')));
  EXPECT_TRUE(parse_json("\"" + std::string(1000, '[') + "\""));
}

TEST(Json, BadUtf8IsReplacedNotThrown) { EXPECT_EQ(dump_json(Json("a\xff")), "\"a\xef\xbf\xbd\""); }

TEST(Json, ReadersGiveTheFallbackForAWrongType) {
  const Json object = {{"n", 3}, {"s", "x"}, {"b", true}};
  EXPECT_EQ(json_int(object, "n"), 3);
  EXPECT_EQ(json_int(object, "s", 7), 7);
  EXPECT_EQ(json_string(object, "n", "none"), "none");
  EXPECT_EQ(json_double(object, "n"), 3.0);
  EXPECT_TRUE(json_bool(object, "b"));
  EXPECT_EQ(json_int(Json::array(), "n", 5), 5);
}

TEST(Sha256, KnownAnswers) {  // FIPS 180-2, appendix B
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST(Sha256, FieldsDoNotRunTogether) {
  Sha256 one, two;
  one.update_field("ab");
  one.update_field("c");
  two.update_field("a");
  two.update_field("bc");
  EXPECT_NE(one.finish_hex(), two.finish_hex());
}

TEST(File, DurableWriteReplacesAndLeavesNothingBeside) {
  const TempFolder folder = std::move(*TempFolder::make("marathon-test"));
  const std::filesystem::path path = folder.path() / "a";
  ASSERT_TRUE(write_file_durable(path, "one"));
  ASSERT_TRUE(write_file_durable(path, "two"));
  EXPECT_EQ(*read_file(path), "two");
  EXPECT_EQ(list_files(folder.path())->size(), 1u);
  EXPECT_EQ(*sha256_file(path), sha256_hex("two"));
}

TEST(File, ReadRefusesWhatIsNoFileOrTooLarge) {
  const TempFolder folder = std::move(*TempFolder::make("marathon-test"));
  ASSERT_TRUE(write_file(folder.path() / "a", "12345"));
  EXPECT_EQ(read_file(folder.path() / "a", 4).error().fault, Fault::invalid);
  EXPECT_EQ(read_file(folder.path()).error().fault, Fault::invalid);
  EXPECT_EQ(read_file(folder.path() / "none").error().fault, Fault::not_found);
}

TEST(File, ListingDoesNotFollowLinks) {
  const TempFolder folder = std::move(*TempFolder::make("marathon-test"));
  ASSERT_TRUE(make_folders(folder.path() / "b/c"));
  ASSERT_TRUE(write_file(folder.path() / "b/c/file", "x"));
  ASSERT_EQ(::symlink("/etc/passwd", (folder.path() / "link").c_str()), 0);
  ASSERT_EQ(::symlink("/etc", (folder.path() / "folder_link").c_str()), 0);
  EXPECT_EQ(*list_files(folder.path()), std::vector<std::filesystem::path>{"b/c/file"});
}

TEST(File, SafeRelativePaths) {
  EXPECT_TRUE(is_safe_relative("a/b.cc"));
  for (const char* path : {"", "/a", "../a", "a/../b", "a//../b", ".", "./a", "a/."}) {
    EXPECT_FALSE(is_safe_relative(path)) << path;
  }
}

TEST(Random, SameSeedSameNumbersOnEveryMachine) {
  Random random(1);
  // The reference implementation's first two numbers for splitmix64(1) seeding.
  EXPECT_EQ(random.next(), 0xb3f2af6d0fc710c5u);
  EXPECT_EQ(random.next(), 0x853b559647364ceau);
  EXPECT_NE(Random(1, "lhs").next(), Random(1, "climb").next());
  EXPECT_EQ(Random(1, "lhs").next(), Random(1, "lhs").next());
}

TEST(Random, BelowIsUniform) {
  Random random(7);
  int64_t counts[6] = {};
  for (int i = 0; i < 60000; ++i) ++counts[random.below(6)];
  for (const int64_t count : counts) EXPECT_NEAR(static_cast<double>(count), 10000, 500);
}

TEST(Random, NormalHasMeanZeroAndVarianceOne) {
  Random random(9);
  double sum = 0, squares = 0;
  for (int i = 0; i < 100000; ++i) {
    const double x = random.normal();
    ASSERT_TRUE(std::isfinite(x));
    sum += x;
    squares += x * x;
  }
  EXPECT_NEAR(sum / 100000, 0, 0.02);
  EXPECT_NEAR(squares / 100000, 1, 0.03);
}

TEST(Clock, Formats) {
  EXPECT_EQ(format_utc(0), "1970-01-01T00:00:00Z");
  EXPECT_EQ(format_duration(0.85), "850 ms");
  EXPECT_EQ(format_duration(12.34), "12.3 s");
  EXPECT_EQ(format_duration(245), "4 min 05 s");
  EXPECT_EQ(format_duration(3 * 3600 + 12 * 60), "3 h 12 min");
  EXPECT_EQ(format_duration(59.97), "1 min 00 s");
}

}  // namespace
}  // namespace marathon
