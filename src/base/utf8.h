// UTF-8 as the WHATWG decoder reads it.
#pragma once

#include <string>
#include <string_view>

namespace marathon {

bool is_utf8(std::string_view bytes);

// Every longest piece that cannot be part of a character becomes one U+FFFD.
std::string replace_bad_utf8(std::string_view bytes);

}  // namespace marathon
