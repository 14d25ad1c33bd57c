// Reading one table of task.toml: each key is asked for once, wrong types and ranges are reported
// where they stand, and what nobody asked for is an unknown key. Inside of core only.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/expression.h"
#include "core/task.h"
#include "core/toml.h"

namespace marathon {

// In quotes, at most 60 bytes, control characters escaped: names come from files that others wrote.
std::string in_quotes(std::string_view text);

// The candidate that differs least from `text`, or nothing when none is near.
std::optional<std::string> nearest(std::string_view text, std::span<const std::string> candidates);

// "; did you mean 'sources'?" or, when nothing is near, "; there are a, b and c".
std::string suggestion(std::string_view text, std::span<const std::string> candidates);

// Everything found wrong in one file. Keeps the first 200: nobody reads more.
class Problems {
 public:
  Problems(std::string_view file, std::string_view text) : file_(file), text_(text) {}

  void error(Position at, const std::string& message);
  void warning(Position at, const std::string& message);
  int64_t errors() const { return errors_; }
  bool full() const;  // what comes now is only counted: no need for a good message
  std::vector<Diagnostic> sorted() &&;

  // Place of the byte `column` (1-based) inside of a string value: exact where the string stands in
  // the file as it is, else the place of the value.
  Position inside(const TomlValue& value, int64_t column) const;

 private:
  void add(Position at, bool warning, const std::string& message);

  std::string file_;
  std::string_view text_;  // lives as long as the parse
  std::vector<Diagnostic> found_;
  int64_t errors_ = 0, left_out_ = 0;
};

struct Range {
  double low, high;
  bool open_low = false;  // low itself is refused
};

class Section {
 public:
  // `name` as the reader of a message knows it: "[build]", "[[tensor]] 'q'".
  Section(const TomlValue& table, Position at, std::string name, Problems& problems)
      : table_(&table), at_(at), name_(std::move(name)), problems_(&problems) {}

  Position at() const { return at_; }
  const std::string& name() const { return name_; }
  void rename(std::string name) { name_ = std::move(name); }
  Position at(std::string_view key);  // of the key's value, or of the section

  // Each reads a key and says whether it was there and of the right kind. `out` keeps its default
  // otherwise.
  bool read(std::string_view key, std::string& out);
  bool read(std::string_view key, bool& out);
  bool read(std::string_view key, int64_t& out, int64_t low, int64_t high);
  bool read(std::string_view key, double& out, Range range);
  bool read(std::string_view key, std::vector<std::string>& out, size_t most);
  bool read(std::string_view key, std::vector<int64_t>& out, size_t most);

  const TomlValue* find(std::string_view key);  // any type
  const TomlValue* table(std::string_view key);
  const TomlValue* array(std::string_view key);
  std::vector<const TomlValue*> tables(std::string_view key, size_t most);  // [[key]]

  void require(std::string_view key, std::string_view advice);  // error when it is not there
  void finish();                                                // unknown keys

  void error(std::string_view key, const std::string& message) {
    problems_->error(at(key), message);
  }

 private:
  const TomlValue* typed(std::string_view key, TomlValue::Type type);

  const TomlValue* table_;
  Position at_;
  std::string name_;
  Problems* problems_;
  std::vector<std::string> asked_;
};

// A name out of a closed set.
template <class Enum>
struct Choice {
  std::string_view name;
  Enum value;
};

template <class Enum, size_t n>
bool read_choice(Section& section, std::string_view key, const Choice<Enum> (&choices)[n],
                 Enum& out, Problems& problems) {
  std::string name;
  if (!section.read(key, name)) return false;
  std::vector<std::string> names;
  for (const Choice<Enum>& choice : choices) {
    if (choice.name == name) {
      out = choice.value;
      return true;
    }
    names.emplace_back(choice.name);
  }
  problems.error(section.at(key),
                 "unknown " + std::string(key) + " " + in_quotes(name) + suggestion(name, names));
  return false;
}

// Parses an expression and checks its names against `declared`; `kind` is what those are ("dim").
std::optional<Expression> read_expression(const TomlValue& value, std::string_view kind,
                                          std::span<const std::string> declared,
                                          Problems& problems);

}  // namespace marathon
