#include "core/toml.h"

#include <fmt/format.h>

#include <algorithm>

#define TOML_EXCEPTIONS 0
#define TOML_UNRELEASED_FEATURES 0
#include <toml++/toml.h>

namespace marathon {

namespace {

constexpr size_t max_text_bytes = 1 << 20;
constexpr int max_brackets = 32;
constexpr int max_dots = 15;

// Walks the text just well enough to know what is a string and what is a comment, and counts what
// would make toml++ recurse. In a text that is not TOML it may lose its way, but only after the
// place where toml++ stops.
class DepthGuard {
 public:
  explicit DepthGuard(std::string_view text) : text_(text) {}

  // What is nested too deeply, or nothing.
  std::string_view run() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '"' || c == '\'') {
        skip_string(c);
        continue;
      }
      if (c == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size());
        continue;
      }
      count(c);
      if (brackets_ > max_brackets) return "brackets are nested deeper than 32 levels";
      if (dots_ > max_dots) return "a key has more than 16 dotted parts";
      ++at_;
    }
    return {};
  }

  Position position() const {
    Position position;
    for (size_t i = 0; i < at_; ++i) {
      const bool continues = (static_cast<unsigned char>(text_[i]) & 0xC0) == 0x80;
      if (!continues) ++position.column;
      if (text_[i] == '\n') position = {position.line + 1, 1};
    }
    return position;
  }

 private:
  void count(char c) {
    const bool opens = c == '[' || c == '{';
    const bool closes = c == ']' || c == '}';
    brackets_ += opens ? 1 : closes ? -1 : 0;
    if (c == '.') ++dots_;
    if (opens || closes || c == ',' || c == '=' || c == '\n') dots_ = 0;
  }

  void skip_string(char quote) {
    const std::string triple(3, quote);
    const bool multi_line = text_.substr(at_).starts_with(triple);
    at_ += multi_line ? 3 : 1;
    while (at_ < text_.size()) {
      if (quote == '"' && text_[at_] == '\\') {
        at_ += 2;
      } else if (multi_line && text_.substr(at_).starts_with(triple)) {
        at_ += 3;
        while (at_ < text_.size() && text_[at_] == quote) ++at_;  // up to two belong to the text
        return;
      } else if (!multi_line && (text_[at_] == quote || text_[at_] == '\n')) {
        ++at_;
        return;
      } else {
        ++at_;
      }
    }
    at_ = std::min(at_, text_.size());
  }

  std::string_view text_;
  size_t at_ = 0;
  int brackets_ = 0, dots_ = 0;
};

// Tables that only a dotted key or a header below them made have no place of their own.
Position position_of(const toml::source_region& region, Position fallback) {
  if (region.begin.line == 0) return fallback;
  return {static_cast<int64_t>(region.begin.line), static_cast<int64_t>(region.begin.column)};
}

TomlValue convert(const toml::node& node, Position fallback);

void convert_table(const toml::table& table, TomlValue& value) {
  value.type = TomlValue::Type::table;
  for (const auto& [key, child] : table) {
    const Position at = position_of(key.source(), value.at);
    value.entries.push_back({std::string(key.str()), at, convert(child, at)});
  }
  std::ranges::stable_sort(value.entries, [](const TomlEntry& a, const TomlEntry& b) {
    return std::pair(a.at.line, a.at.column) < std::pair(b.at.line, b.at.column);
  });
}

TomlValue convert(const toml::node& node, Position fallback) {
  TomlValue value;
  value.at = position_of(node.source(), fallback);
  switch (node.type()) {
    case toml::node_type::table:
      convert_table(*node.as_table(), value);
      break;
    case toml::node_type::array:
      value.type = TomlValue::Type::array;
      value.items.reserve(node.as_array()->size());
      for (const toml::node& item : *node.as_array())
        value.items.push_back(convert(item, value.at));
      break;
    case toml::node_type::string:
      value.type = TomlValue::Type::text;
      value.text = node.as_string()->get();
      break;
    case toml::node_type::integer:
      value.type = TomlValue::Type::integer;
      value.integer = node.as_integer()->get();
      value.number = static_cast<double>(value.integer);
      break;
    case toml::node_type::floating_point:
      value.type = TomlValue::Type::number;
      value.number = node.as_floating_point()->get();
      break;
    case toml::node_type::boolean:
      value.type = TomlValue::Type::boolean;
      value.boolean = node.as_boolean()->get();
      break;
    case toml::node_type::date:
    case toml::node_type::time:
    case toml::node_type::date_time:
    case toml::node_type::none:
      value.type = TomlValue::Type::time;
      break;
  }
  return value;
}

}  // namespace

std::string_view to_string(TomlValue::Type type) {
  switch (type) {
    case TomlValue::Type::text:
      return "a string";
    case TomlValue::Type::integer:
      return "a whole number";
    case TomlValue::Type::number:
      return "a number with a fraction";
    case TomlValue::Type::boolean:
      return "true or false";
    case TomlValue::Type::time:
      return "a date or time";
    case TomlValue::Type::array:
      return "a list";
    case TomlValue::Type::table:
      return "a table";
  }
  return "";
}

Result<TomlValue> parse_toml(std::string_view text, Position& at) {
  at = {1, 1};
  if (text.size() > max_text_bytes) {
    return fail(Fault::invalid, "the file is larger than 1 MiB; a task file is a few kilobytes");
  }
  DepthGuard guard(text);
  const std::string_view trouble = guard.run();
  if (!trouble.empty()) {
    at = guard.position();
    return fail(Fault::invalid, std::string(trouble));
  }
  const toml::parse_result parsed = toml::parse(text);
  if (!parsed) {
    at = position_of(parsed.error().source(), at);
    return fail(Fault::invalid, fmt::format("not valid TOML: {}", parsed.error().description()));
  }
  return convert(parsed.table(), {1, 1});
}

}  // namespace marathon
