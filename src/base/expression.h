// Small integer expressions over names: tensor shapes ("T*K"), constraints ("CHUNK <= T && FORM ==
// 1").
//
// Grammar, C's precedence: || && == != < <= > >= + - * / % unary - !, ( ), integer literals, names,
// and the functions min(a,b), max(a,b), ceil_div(a,b), pow2(a) (1 if a power of two). Truth is 1 or
// 0. All arithmetic is checked: overflow and division by zero are errors, never wrapped values.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace marathon {

class Expression {
 public:
  // Error invalid with the column (1-based) and what was expected.
  static Result<Expression> parse(std::string_view text);

  using Lookup = std::function<std::optional<int64_t>(std::string_view name)>;
  Result<int64_t> evaluate(const Lookup& lookup) const;

  const std::vector<std::string>& names() const { return names_; }  // sorted, each once
  const std::string& text() const { return text_; }

  struct Node;

 private:
  std::string text_;
  std::vector<std::string> names_;
  std::shared_ptr<const Node> root_;
};

}  // namespace marathon
