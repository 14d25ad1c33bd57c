#include "base/expression.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

namespace marathon {

// A program in postfix form, not a tree: `1+1+…` with ten thousand terms must neither be evaluated
// nor destroyed by recursion, and a flat program is four times as fast in the search's inner loop.
struct Expression::Program {
  enum class Op : uint8_t {
    literal,
    name,
    negate,
    invert,
    truth,  // any value → 0 or 1
    add,
    subtract,
    multiply,
    divide,
    remainder,
    equal,
    unequal,
    less,
    less_equal,
    greater,
    greater_equal,
    minimum,
    maximum,
    ceil_div,
    pow2,
    skip_if_false,  // top is 0: leave it and jump; else drop it and go on
    skip_if_true,   // top is not 0: leave 1 and jump; else drop it and go on
  };
  struct Step {
    Op op;
    int64_t operand = 0;  // literal: its value; name: its index; skip: the step to go on with
  };
  std::vector<Step> steps;
};

namespace {

using Op = Expression::Program::Op;
using Step = Expression::Program::Step;

constexpr int max_depth = 60;        // of brackets, functions and signs
constexpr size_t stack_slots = 512;  // 60 levels times the 7 operands that can wait on each
constexpr size_t max_text_bytes = 65536;
constexpr int64_t smallest = std::numeric_limits<int64_t>::min();

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_name_part(char c) { return is_name_start(c) || is_digit(c); }

struct Binary {
  std::string_view text;
  int precedence;
  Op op;
};
// Longer signs first: "<=" must not be read as "<".
constexpr std::array<Binary, 13> binaries = {{
    {"||", 1, Op::skip_if_true},
    {"&&", 2, Op::skip_if_false},
    {"==", 3, Op::equal},
    {"!=", 3, Op::unequal},
    {"<=", 4, Op::less_equal},
    {">=", 4, Op::greater_equal},
    {"<", 4, Op::less},
    {">", 4, Op::greater},
    {"+", 5, Op::add},
    {"-", 5, Op::subtract},
    {"*", 6, Op::multiply},
    {"/", 6, Op::divide},
    {"%", 6, Op::remainder},
}};

struct Function {
  std::string_view name;
  int arguments;
  Op op;
};
constexpr std::array<Function, 4> functions = {{
    {"min", 2, Op::minimum},
    {"max", 2, Op::maximum},
    {"ceil_div", 2, Op::ceil_div},
    {"pow2", 1, Op::pow2},
}};

const Function* find_function(std::string_view name) {
  const Function* at = std::ranges::find(functions, name, &Function::name);
  return at == functions.end() ? nullptr : at;
}

// Recursive descent that writes the program as it reads.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Status run() {
    TRY(parse_binary(1));
    skip_space();
    if (at_ < text_.size()) return fail_here(after_operand_hint());
    return {};
  }

  std::vector<Step> steps;
  std::vector<std::string> names;  // in the order of their first use
  int64_t error_column = 0;

 private:
  Status parse_binary(int lowest) {
    TRY(parse_unary());
    int compared = 0;  // the precedence of the comparison just made
    while (true) {
      const Binary* binary = peek_binary();
      if (!binary || binary->precedence < lowest) return {};
      const bool compares = binary->precedence == 3 || binary->precedence == 4;
      if (compares && binary->precedence == compared) {
        return fail_here(
            "comparisons do not chain: write 'a < b && b < c', or put one of them in brackets");
      }
      compared = compares ? binary->precedence : 0;
      at_ += binary->text.size();
      TRY(parse_right_side(*binary));
    }
  }

  Status parse_right_side(const Binary& binary) {
    const bool skips = binary.op == Op::skip_if_true || binary.op == Op::skip_if_false;
    if (!skips) {
      TRY(parse_binary(binary.precedence + 1));
      steps.push_back({binary.op});
      return {};
    }
    const size_t skip = steps.size();
    steps.push_back({binary.op});
    TRY(parse_binary(binary.precedence + 1));
    steps.push_back({Op::truth});
    steps[skip].operand = static_cast<int64_t>(steps.size());
    return {};
  }

  Status parse_unary() {
    skip_space();
    if (at_ >= text_.size()) return fail_here("expected a number, a name or '('");
    if (++depth_ > max_depth) {
      return fail_here(fmt::format("nested deeper than {} levels; simplify it", max_depth));
    }
    const char c = text_[at_];
    if (c == '-' || c == '!') {
      ++at_;
      TRY(parse_unary());
      steps.push_back({c == '-' ? Op::negate : Op::invert});
    } else if (c == '(') {
      ++at_;
      TRY(parse_binary(1));
      TRY(expect(')'));
    } else if (is_digit(c)) {
      TRY(parse_number());
    } else if (is_name_start(c)) {
      TRY(parse_name());
    } else {
      return fail_here("expected a number, a name or '('");
    }
    --depth_;
    return {};
  }

  Status parse_number() {
    int64_t value = 0;
    const char* end = text_.data() + text_.size();
    const std::from_chars_result read = std::from_chars(text_.data() + at_, end, value);
    if (read.ec != std::errc()) return fail_here("the number does not fit into 64 bits");
    at_ = static_cast<size_t>(read.ptr - text_.data());
    if (at_ < text_.size() && (is_name_start(text_[at_]) || text_[at_] == '.')) {
      return fail_here("numbers are whole and decimal here: write 1000000, not 1e6 or 1.0");
    }
    steps.push_back({Op::literal, value});
    return {};
  }

  Status parse_name() {
    const size_t start = at_;
    while (at_ < text_.size() && is_name_part(text_[at_])) ++at_;
    const std::string_view name = text_.substr(start, at_ - start);
    skip_space();
    if (at_ < text_.size() && text_[at_] == '(') return parse_call(name, start);
    if (find_function(name)) {
      return fail_here(fmt::format("expected '(' after the function {}", name));
    }
    const std::vector<std::string>::iterator known = std::ranges::find(names, name);
    steps.push_back({Op::name, known - names.begin()});
    if (known == names.end()) {
      if (names.size() >= 256) return fail_here("more than 256 names; split the expression");
      names.emplace_back(name);
    }
    return {};
  }

  Status parse_call(std::string_view name, size_t start) {
    const Function* function = find_function(name);
    if (!function) {
      at_ = start;
      return fail_here(fmt::format(
          "unknown function '{}'; there are min(a,b), max(a,b), ceil_div(a,b) and pow2(a)",
          name.substr(0, 40)));
    }
    ++at_;
    for (int i = 0; i < function->arguments; ++i) {
      if (i > 0) TRY(expect(','));
      TRY(parse_binary(1));
    }
    TRY(expect(')'));
    steps.push_back({function->op});
    return {};
  }

  const Binary* peek_binary() {
    skip_space();
    const std::string_view rest = text_.substr(at_);
    const Binary* at = std::ranges::find_if(
        binaries, [&](const Binary& binary) { return rest.starts_with(binary.text); });
    return at == binaries.end() ? nullptr : at;
  }

  Status expect(char wanted) {
    skip_space();
    if (at_ < text_.size() && text_[at_] == wanted) {
      ++at_;
      return {};
    }
    return fail_here(fmt::format("expected '{}' or an operator", wanted));
  }

  // What the sign that stands where an operator should be was probably meant to be.
  std::string after_operand_hint() const {
    const std::string_view rest = text_.substr(at_);
    if (rest.starts_with("=")) return "expected an operator; equality is '=='";
    if (rest.starts_with("&") || rest.starts_with("and"))
      return "expected an operator; and is '&&'";
    if (rest.starts_with("|") || rest.starts_with("or")) return "expected an operator; or is '||'";
    return "expected an operator or the end";
  }

  void skip_space() {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n' || text_[at_] == '\r')) {
      ++at_;
    }
  }

  tl::unexpected<Error> fail_here(const std::string& what) {
    error_column = static_cast<int64_t>(at_) + 1;
    std::string found = "but the expression ends";
    if (at_ < text_.size()) {
      const char c = text_[at_];
      found = c >= ' ' && c < 127 ? fmt::format("but found '{}'", c) : "but found a strange byte";
    }
    const std::string tail = what.starts_with("expected") ? ", " + found : "";
    return fail(Fault::invalid, fmt::format("column {}: {}{}", error_column, what, tail));
  }

  std::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;
};

enum class Trouble { none, overflow, division_by_zero, empty };

bool compare(Op op, int64_t a, int64_t b) {
  if (op == Op::equal) return a == b;
  if (op == Op::unequal) return a != b;
  if (op == Op::less) return a < b;
  if (op == Op::less_equal) return a <= b;
  if (op == Op::greater) return a > b;
  return a >= b;
}

Trouble divide(Op op, int64_t a, int64_t b, int64_t& result) {
  if (b == 0) return Trouble::division_by_zero;
  if (a == smallest && b == -1) return Trouble::overflow;
  if (op == Op::remainder) {
    result = a % b;
    return Trouble::none;
  }
  const bool up = op == Op::ceil_div && a % b != 0 && (a < 0) == (b < 0);
  result = a / b + (up ? 1 : 0);
  return Trouble::none;
}

Trouble combine(Op op, int64_t a, int64_t b, int64_t& result) {
  bool overflow = false;
  switch (op) {
    case Op::add:
      overflow = __builtin_add_overflow(a, b, &result);
      break;
    case Op::subtract:
      overflow = __builtin_sub_overflow(a, b, &result);
      break;
    case Op::multiply:
      overflow = __builtin_mul_overflow(a, b, &result);
      break;
    case Op::divide:
    case Op::remainder:
    case Op::ceil_div:
      return divide(op, a, b, result);
    case Op::minimum:
      result = std::min(a, b);
      break;
    case Op::maximum:
      result = std::max(a, b);
      break;
    case Op::equal:
    case Op::unequal:
    case Op::less:
    case Op::less_equal:
    case Op::greater:
    case Op::greater_equal:
      result = compare(op, a, b) ? 1 : 0;
      break;
    case Op::literal:
    case Op::name:
    case Op::negate:
    case Op::invert:
    case Op::truth:
    case Op::pow2:
    case Op::skip_if_false:
    case Op::skip_if_true:
      break;  // not of two operands: execute() never asks
  }
  return overflow ? Trouble::overflow : Trouble::none;
}

Trouble execute(const std::vector<Step>& steps, std::span<const int64_t> values, int64_t& result) {
  std::array<int64_t, stack_slots> stack;
  size_t used = 0;
  for (size_t i = 0; i < steps.size(); ++i) {
    const Step& step = steps[i];
    int64_t& top = stack[used == 0 ? 0 : used - 1];
    switch (step.op) {
      case Op::literal:
        stack[used++] = step.operand;
        break;
      case Op::name:
        stack[used++] = values[static_cast<size_t>(step.operand)];
        break;
      case Op::negate:
        if (top == smallest) return Trouble::overflow;
        top = -top;
        break;
      case Op::invert:
        top = top == 0;
        break;
      case Op::truth:
        top = top != 0;
        break;
      case Op::pow2:
        top = top > 0 && (top & (top - 1)) == 0;
        break;
      case Op::skip_if_false:
      case Op::skip_if_true:
        if ((top != 0) == (step.op == Op::skip_if_true)) {
          top = top != 0;
          i = static_cast<size_t>(step.operand) - 1;
        } else {
          --used;
        }
        break;
      case Op::add:
      case Op::subtract:
      case Op::multiply:
      case Op::divide:
      case Op::remainder:
      case Op::ceil_div:
      case Op::minimum:
      case Op::maximum:
      case Op::equal:
      case Op::unequal:
      case Op::less:
      case Op::less_equal:
      case Op::greater:
      case Op::greater_equal: {
        const int64_t right = top;
        --used;
        const Trouble trouble = combine(step.op, stack[used - 1], right, stack[used - 1]);
        if (trouble != Trouble::none) return trouble;
        break;
      }
    }
  }
  result = stack[0];
  return Trouble::none;
}

// Names in the order of their first use become indices into the sorted list.
void sort_names(std::vector<Step>& steps, std::vector<std::string>& names) {
  const std::vector<std::string> as_met = names;
  std::ranges::sort(names);
  for (Step& step : steps) {
    if (step.op != Op::name) continue;
    const std::string& name = as_met[static_cast<size_t>(step.operand)];
    step.operand = std::ranges::lower_bound(names, name) - names.begin();
  }
}

}  // namespace

bool is_identifier(std::string_view text) {
  return !text.empty() && is_name_start(text[0]) && std::ranges::all_of(text, is_name_part);
}

bool Expression::is_function(std::string_view name) { return find_function(name) != nullptr; }

Result<Expression> Expression::parse(std::string_view text, int64_t* error_column) {
  if (error_column) *error_column = 1;
  if (text.size() > max_text_bytes) {
    return fail(Fault::invalid,
                fmt::format("column 1: an expression is at most {} bytes long", max_text_bytes));
  }
  Parser parser(text);
  const Status parsed = parser.run();
  if (!parsed) {
    if (error_column) *error_column = parser.error_column;
    return tl::unexpected(parsed.error());
  }
  sort_names(parser.steps, parser.names);
  Expression expression;
  expression.text_ = std::string(text);
  expression.names_ = std::move(parser.names);
  expression.program_ = std::make_shared<const Program>(Program{std::move(parser.steps)});
  return expression;
}

Result<int64_t> Expression::evaluate(const Lookup& lookup) const {
  std::vector<int64_t> values;
  values.reserve(names_.size());
  for (const std::string& name : names_) {
    const std::optional<int64_t> value = lookup(name);
    if (!value) {
      return fail(Fault::invalid, fmt::format("'{}' in '{}' is not declared", name, text_));
    }
    values.push_back(*value);
  }
  int64_t result = 0;
  switch (program_ ? execute(program_->steps, values, result) : Trouble::empty) {
    case Trouble::none:
      return result;
    case Trouble::overflow:
      return fail(Fault::invalid, fmt::format("'{}' does not fit into 64 bits", text_));
    case Trouble::division_by_zero:
      return fail(Fault::invalid, fmt::format("'{}' divides by zero", text_));
    case Trouble::empty:
      break;
  }
  return fail(Fault::invalid, "an empty expression has no value");
}

std::optional<int64_t> Expression::evaluate(std::span<const int64_t> values) const {
  int64_t result = 0;
  if (!program_ || execute(program_->steps, values, result) != Trouble::none) return std::nullopt;
  return result;
}

int64_t Expression::cost() const {
  return program_ ? static_cast<int64_t>(program_->steps.size()) : 0;
}

}  // namespace marathon
