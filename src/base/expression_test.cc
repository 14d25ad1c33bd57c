#include "base/expression.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace marathon {
namespace {

using Values = std::map<std::string, int64_t, std::less<>>;

Result<int64_t> value_of(std::string_view text, const Values& values = {}) {
  const Result<Expression> expression = Expression::parse(text);
  if (!expression) return tl::unexpected(expression.error());
  return expression->evaluate([&](std::string_view name) -> std::optional<int64_t> {
    const Values::const_iterator at = values.find(name);
    if (at == values.end()) return std::nullopt;
    return at->second;
  });
}

std::string error_of(std::string_view text, const Values& values = {}) {
  const Result<int64_t> value = value_of(text, values);
  return value ? "no error" : value.error().what;
}

int64_t column_of(std::string_view text) {
  int64_t column = 0;
  EXPECT_FALSE(Expression::parse(text, &column)) << text;
  return column;
}

TEST(Expression, FollowsThePrecedenceOfC) {
  const std::vector<std::pair<std::string, int64_t>> cases = {
      {"1 + 2 * 3", 7},
      {"(1 + 2) * 3", 9},
      {"7 - 3 - 2", 2},
      {"100 / 10 / 5", 2},
      {"-7 / 2", -3},
      {"-7 % 3", -1},
      {"2 * -3", -6},
      {"- - 3", 3},
      {"!0 + 1", 2},
      {"!!5", 1},
      {"1 || 0 && 0", 1},
      {"1 < 2 == 1", 1},
      {"3 >= 3", 1},
      {"3 != 3", 0},
      {"5 && 7", 1},
      {"0 || 9", 1},
      {"min(3, 4) + max(3, 4)", 7},
      {"ceil_div(7, 2)", 4},
      {"ceil_div(-7, 2)", -3},
      {"ceil_div(8, 2)", 4},
      {"pow2(64)", 1},
      {"pow2(0)", 0},
      {"pow2(-4)", 0},
      {"9223372036854775807", std::numeric_limits<int64_t>::max()},
      {"\t1\n+\r 1 ", 2},
  };
  for (const auto& [text, value] : cases) EXPECT_EQ(value_of(text).value_or(-999), value) << text;
}

TEST(Expression, NamesAreSortedAndListedOnce) {
  const Result<Expression> expression = Expression::parse("T*K + B*T + a_1");
  ASSERT_TRUE(expression);
  EXPECT_EQ(expression->names(), (std::vector<std::string>{"B", "K", "T", "a_1"}));
  const std::vector<int64_t> values = {2, 3, 5, 7};
  EXPECT_EQ(expression->evaluate(values), 5 * 3 + 2 * 5 + 7);
  EXPECT_EQ(value_of("T*K + B*T + a_1", {{"B", 2}, {"K", 3}, {"T", 5}, {"a_1", 7}}).value(), 32);
  EXPECT_EQ(expression->text(), "T*K + B*T + a_1");
}

TEST(Expression, LogicLooksAtTheRightSideOnlyWhenItCounts) {
  EXPECT_EQ(value_of("A == 0 || 10 / A > 1", {{"A", 0}}).value(), 1);
  EXPECT_EQ(value_of("A != 0 && 10 / A > 1", {{"A", 0}}).value(), 0);
  EXPECT_EQ(value_of("A == 0 || 10 / A > 1", {{"A", 20}}).value(), 0);
  EXPECT_EQ(value_of("0 || 0 || 3 || 1 / 0").value(), 1);
  EXPECT_EQ(value_of("1 && 2 && 0 && 1 / 0").value(), 0);
}

TEST(Expression, ArithmeticIsChecked) {
  EXPECT_EQ(error_of("9223372036854775807 + 1"),
            "'9223372036854775807 + 1' does not fit into 64 bits");
  EXPECT_EQ(error_of("3037000500 * 3037000500"),
            "'3037000500 * 3037000500' does not fit into 64 bits");
  EXPECT_EQ(error_of("-9223372036854775807 - 2"),
            "'-9223372036854775807 - 2' does not fit into 64 bits");
  EXPECT_EQ(error_of("1 / 0"), "'1 / 0' divides by zero");
  EXPECT_EQ(error_of("1 % 0"), "'1 % 0' divides by zero");
  EXPECT_EQ(error_of("ceil_div(1, 0)"), "'ceil_div(1, 0)' divides by zero");
  const int64_t least = std::numeric_limits<int64_t>::min();
  EXPECT_NE(error_of("A / -1", {{"A", least}}).find("does not fit"), std::string::npos);
  EXPECT_NE(error_of("A % -1", {{"A", least}}).find("does not fit"), std::string::npos);
  EXPECT_NE(error_of("-A", {{"A", least}}).find("does not fit"), std::string::npos);
  EXPECT_EQ(Expression::parse("1 / 0")->evaluate(std::span<const int64_t>{}), std::nullopt);
}

TEST(Expression, AnUndeclaredNameIsNamed) {
  EXPECT_EQ(error_of("A + B", {{"A", 1}}), "'B' in 'A + B' is not declared");
}

TEST(Expression, SyntaxErrorsSayColumnAndWhatWasExpected) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "column 1: expected a number, a name or '(', but the expression ends"},
      {"1 +", "column 4: expected a number, a name or '(', but the expression ends"},
      {"(1", "column 3: expected ')' or an operator, but the expression ends"},
      {"1)", "column 2: expected an operator or the end, but found ')'"},
      {"a = 3", "column 3: expected an operator; equality is '==', but found '='"},
      {"a & b", "column 3: expected an operator; and is '&&', but found '&'"},
      {"a or b", "column 3: expected an operator; or is '||', but found 'o'"},
      {"1e6", "column 2: numbers are whole and decimal here: write 1000000, not 1e6 or 1.0"},
      {"2.5", "column 2: numbers are whole and decimal here: write 1000000, not 1e6 or 1.0"},
      {"9223372036854775808", "column 1: the number does not fit into 64 bits"},
      {"min(1)", "column 6: expected ',' or an operator, but found ')'"},
      {"pow2(1,2)", "column 7: expected ')' or an operator, but found ','"},
      {"min + 1", "column 5: expected '(' after the function min, but found '+'"},
      {"cdiv(1,2)",
       "column 1: unknown function 'cdiv'; there are min(a,b), max(a,b), ceil_div(a,b) and "
       "pow2(a)"},
      {"8 <= A <= 64",
       "column 8: comparisons do not chain: write 'a < b && b < c', or put one of them in "
       "brackets"},
      {"1 + \xff", "column 5: expected a number, a name or '(', but found a strange byte"},
  };
  for (const auto& [text, message] : cases) EXPECT_EQ(error_of(text), message) << text;
  EXPECT_EQ(column_of("a = 3"), 3);
  EXPECT_EQ(column_of("12 + * 3"), 6);
}

// Found by thought, kept by test: a recursive evaluator dies of the first, a recursive parser of
// the second.
TEST(Expression, LengthAndDepthAreBounded) {
  std::string sum = "1";
  for (int i = 0; i < 20000; ++i) sum += "+1";
  EXPECT_EQ(value_of(sum).value(), 20001);
  for (const char* opening : {"(", "-", "!", "min(1,", "1*("}) {
    std::string deep;
    for (int i = 0; i < 5000; ++i) deep += opening;
    EXPECT_NE(error_of(deep).find("nested deeper than 60 levels"), std::string::npos) << opening;
  }
  EXPECT_NE(error_of(std::string(70000, '1')).find("at most 65536 bytes"), std::string::npos);
  std::string names;
  for (int i = 0; i < 300; ++i) names += "n" + std::to_string(i) + "+";
  EXPECT_NE(error_of(names + "1").find("more than 256 names"), std::string::npos);
}

TEST(Expression, TheDeepestAllowedOneFitsTheStack) {
  std::string deep;
  for (int i = 0; i < 59; ++i) deep += "1 == 2 < 3 + 4 * min(5, ";
  deep += "7";
  EXPECT_NE(error_of(deep).find("expected ')'"), std::string::npos);
  deep += std::string(59, ')');
  EXPECT_TRUE(value_of(deep)) << error_of(deep);
}

TEST(Expression, AnUnparsedOneHasNoValue) {
  EXPECT_FALSE(Expression().evaluate([](std::string_view) { return std::optional<int64_t>(1); }));
  EXPECT_EQ(Expression().evaluate(std::span<const int64_t>{}), std::nullopt);
}

TEST(Expression, Identifiers) {
  EXPECT_TRUE(is_identifier("CHUNK_2"));
  EXPECT_TRUE(is_identifier("_a"));
  EXPECT_FALSE(is_identifier(""));
  EXPECT_FALSE(is_identifier("2A"));
  EXPECT_FALSE(is_identifier("A-B"));
  EXPECT_TRUE(Expression::is_function("ceil_div"));
  EXPECT_FALSE(Expression::is_function("CHUNK"));
}

}  // namespace
}  // namespace marathon
