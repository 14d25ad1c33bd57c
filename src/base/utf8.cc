#include "base/utf8.h"

#include <cstddef>
#include <cstdint>

namespace marathon {

namespace {

struct Piece {
  size_t bytes = 1;
  bool good = true;
};

// The character, or the longest wrong piece, at the start of what is left.
Piece next_piece(std::string_view left) {
  const auto at = [&](size_t i) { return static_cast<uint8_t>(left[i]); };
  const uint8_t first = at(0);
  if (first < 0x80) return {};
  const size_t wanted = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4) return {1, false};
  // The second byte's range keeps out overlong forms, surrogates and what is above U+10FFFF.
  const uint8_t low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  const uint8_t high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  for (size_t i = 1; i < wanted; ++i) {
    if (i == left.size()) return {i, false};
    const bool fits = i == 1 ? at(i) >= low && at(i) <= high : (at(i) & 0xC0) == 0x80;
    if (!fits) return {i, false};
  }
  return {wanted, true};
}

}  // namespace

bool is_utf8(std::string_view bytes) {
  while (!bytes.empty()) {
    const Piece piece = next_piece(bytes);
    if (!piece.good) return false;
    bytes.remove_prefix(piece.bytes);
  }
  return true;
}

std::string replace_bad_utf8(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  while (!bytes.empty()) {
    const Piece piece = next_piece(bytes);
    text += piece.good ? bytes.substr(0, piece.bytes) : std::string_view("\xEF\xBF\xBD");
    bytes.remove_prefix(piece.bytes);
  }
  return text;
}

}  // namespace marathon
