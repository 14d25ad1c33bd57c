// TOML text as a plain tree in which every key and value knows where it stands. Inside of core
// only: toml++ itself is 17,000 lines of header and stays in toml.cc.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace marathon {

struct Position {
  int64_t line = 1, column = 1;  // 1-based, columns in characters
};

struct TomlEntry;

struct TomlValue {
  enum class Type { text, integer, number, boolean, time, array, table };
  Type type = Type::table;
  std::string text;
  int64_t integer = 0;
  double number = 0;  // of an integer too
  bool boolean = false;
  std::vector<TomlValue> items;
  std::vector<TomlEntry> entries;  // in the order of the file
  Position at;
};

struct TomlEntry {
  std::string key;
  Position at;
  TomlValue value;
};

std::string_view to_string(TomlValue::Type type);  // "a string", "a whole number" …

// Error invalid; `at` gets its place. Refused before toml++ sees them: more than 1 MiB, brackets
// nested deeper than 32, keys of more than 16 dotted parts (toml++ 3.3 destroys its tree by
// recursion, so that `a.a.a.…` of 100,000 parts would end the process).
Result<TomlValue> parse_toml(std::string_view text, Position& at);

}  // namespace marathon
