// Small integer expressions over names: tensor shapes ("T*K"), constraints ("FORM == 1 || CHUNK <=
// 16").
//
// Grammar, C's precedence: || && == != < <= > >= + - * / % unary - !, ( ), integer literals, names,
// and the functions min(a,b), max(a,b), ceil_div(a,b), pow2(a) (1 if a power of two). Truth is 1 or
// 0; && and || look at their right side only when it counts. All arithmetic is checked: overflow
// and division by zero are errors, never wrapped values. `a < b < c` is refused: in C it means
// something that nobody wants.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace marathon {

class Expression {
 public:
  // Error invalid with the column (1-based, in bytes) and what was expected. `error_column` gets
  // the same column as a number, for callers that know where the text stands in a file.
  static Result<Expression> parse(std::string_view text, int64_t* error_column = nullptr);

  using Lookup = std::function<std::optional<int64_t>(std::string_view name)>;
  Result<int64_t> evaluate(const Lookup& lookup) const;

  // The fast way for a search that asks a million times: `values` in the order of names(). Nothing
  // on overflow or division by zero.
  std::optional<int64_t> evaluate(std::span<const int64_t> values) const;

  const std::vector<std::string>& names() const { return names_; }  // sorted, each once
  const std::string& text() const { return text_; }
  int64_t cost() const;  // steps of one evaluation at most

  // Words that the grammar keeps for itself: they cannot be names.
  static bool is_function(std::string_view name);

  struct Program;

 private:
  std::string text_;
  std::vector<std::string> names_;
  std::shared_ptr<const Program> program_;
};

// [A-Za-z_][A-Za-z0-9_]*: what can stand as a name in an expression.
bool is_identifier(std::string_view text);

}  // namespace marathon
