// Tokens of C++ and Python, as far as rules and fingerprints need them: no grammar, no error. What
// tools/fingerprint.py does must give the same. Inside of judge/ only.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace marathon {

enum class TokenKind {
  name,
  number,
  text,     // a string or character literal; its `text` is what stands between the quotes
  sign,     // one character
  newline,  // Python: the end of a statement
};

struct Token {
  TokenKind kind = TokenKind::sign;
  std::string text;
  int64_t line = 1;
  bool starts_line = false;   // nothing but blanks and comments before it
  bool is_formatted = false;  // Python: an f-string
};

enum class TokenSyntax { cpp, python };

// Comments are gone, and in C++ lines that end in a backslash are joined.
std::vector<Token> tokens_of(std::string_view text, TokenSyntax syntax);

}  // namespace marathon
