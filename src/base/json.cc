#include "base/json.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace marathon {

namespace {

constexpr int max_depth = 200;

// Line and column of a byte offset, both 1-based.
std::string position_of(std::string_view text, size_t offset) {
  int64_t line = 1, column = 1;
  for (size_t i = 0; i < std::min(offset, text.size()); ++i) {
    if (text[i] == '\n') {
      ++line;
      column = 1;
    } else {
      ++column;
    }
  }
  return fmt::format("line {}, column {}", line, column);
}

// nlohmann's parser recurses in its destructor: nesting is bounded before anything is built.
bool is_too_deep(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\')
        ++i;
      else if (c == '"')
        in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > max_depth) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

const Json* find(const Json& object, std::string_view key) {
  if (!object.is_object()) return nullptr;
  const Json::const_iterator at = object.find(std::string(key));
  return at == object.end() ? nullptr : &*at;
}

}  // namespace

Result<Json> parse_json(std::string_view text) {
  if (is_too_deep(text)) {
    return fail(Fault::invalid, fmt::format("JSON is nested deeper than {} levels", max_depth));
  }
  try {
    return Json::parse(text);
  } catch (const Json::parse_error& error) {
    const size_t offset = error.byte == 0 ? 0 : error.byte - 1;
    return fail(Fault::invalid, fmt::format("not valid JSON at {}", position_of(text, offset)));
  } catch (const Json::exception& error) {
    return fail(Fault::invalid, fmt::format("not valid JSON: {}", error.what()));
  }
}

std::string dump_json(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string dump_json_pretty(const Json& value) {
  return value.dump(2, ' ', false, Json::error_handler_t::replace);
}

const Json& json_member(const Json& object, std::string_view key) {
  static const Json none;
  const Json* found = find(object, key);
  return found ? *found : none;
}

std::string json_string(const Json& object, std::string_view key, std::string_view fallback) {
  const Json* value = find(object, key);
  return value && value->is_string() ? value->get<std::string>() : std::string(fallback);
}

int64_t json_int(const Json& object, std::string_view key, int64_t fallback) {
  const Json* value = find(object, key);
  return value && value->is_number_integer() ? value->get<int64_t>() : fallback;
}

double json_double(const Json& object, std::string_view key, double fallback) {
  const Json* value = find(object, key);
  return value && value->is_number() ? value->get<double>() : fallback;
}

bool json_bool(const Json& object, std::string_view key, bool fallback) {
  const Json* value = find(object, key);
  return value && value->is_boolean() ? value->get<bool>() : fallback;
}

}  // namespace marathon
