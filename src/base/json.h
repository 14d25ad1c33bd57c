// JSON text in and out. The library's own header stays in .cc files.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/result.h"

namespace marathon {

using Json = nlohmann::json;  // object keys are sorted: the same value always prints the same bytes

// Parses a whole text. Error invalid with line and column; nesting deeper than 200 is refused.
Result<Json> parse_json(std::string_view text);

// One line, keys sorted; invalid UTF-8 is replaced by U+FFFD, never thrown.
std::string dump_json(const Json& value);
std::string dump_json_pretty(const Json& value);

// Field readers that never throw. A missing field, or one of another type, gives the fallback, or
// null for json_member.
const Json& json_member(const Json& object, std::string_view key);
std::string json_string(const Json& object, std::string_view key, std::string_view fallback = "");
int64_t json_int(const Json& object, std::string_view key, int64_t fallback = 0);
double json_double(const Json& object, std::string_view key, double fallback = 0);
bool json_bool(const Json& object, std::string_view key, bool fallback = false);

}  // namespace marathon
