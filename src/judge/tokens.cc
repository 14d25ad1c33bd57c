#include "judge/tokens.h"

#include <algorithm>

namespace marathon {

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool starts_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}
bool is_in_name(char c) { return starts_name(c) || is_digit(c); }

// The text without backslashes at the ends of lines, and where lines begin in it.
struct Joined {
  std::string text;
  std::vector<size_t> lines;  // offset of the i-th line's first character
};

Joined joined(std::string_view text, bool join) {
  Joined result;
  result.text.reserve(text.size());
  result.lines.push_back(0);
  for (size_t i = 0; i < text.size(); ++i) {
    const std::string_view rest = text.substr(i);
    const size_t cut = !join                        ? 0
                       : rest.starts_with("\\\n")   ? 2
                       : rest.starts_with("\\\r\n") ? 3
                                                    : 0;
    if (cut == 0) result.text += text[i];
    if (cut > 0) i += cut - 1;
    if (cut > 0 || text[i] == '\n') result.lines.push_back(result.text.size());
  }
  return result;
}

class Lexer {
 public:
  Lexer(const Joined& joined, TokenSyntax syntax)
      : text_(joined.text), lines_(joined.lines), python_(syntax == TokenSyntax::python) {}

  std::vector<Token> run() {
    while (at_ < text_.size()) step();
    if (python_) end_statement();
    return std::move(tokens_);
  }

 private:
  char now(size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  bool sees(std::string_view what) const { return text_.substr(at_).starts_with(what); }

  void step() {
    const char c = now();
    if (c == '\n') return new_line();
    if (static_cast<unsigned char>(c) <= ' ') {
      ++at_;
    } else if (python_ && c == '\\' && (now(1) == '\n' || sees("\\\r\n"))) {
      at_ += now(1) == '\n' ? 2 : 3;
    } else if (python_ ? c == '#' : sees("//")) {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else if (!python_ && sees("/*")) {
      const size_t end = text_.find("*/", at_ + 2);
      at_ = end == std::string_view::npos ? text_.size() : end + 2;
    } else if (starts_name(c)) {
      name();
    } else if (is_digit(c) || (c == '.' && is_digit(now(1)))) {
      number();
    } else if (c == '"' || c == '\'') {
      literal(at_, "");
    } else {
      sign();
    }
  }

  void new_line() {
    ++at_;
    fresh_ = true;
    if (python_ && depth_ == 0) end_statement();
  }

  void end_statement() {
    if (!tokens_.empty() && tokens_.back().kind != TokenKind::newline)
      add(TokenKind::newline, at_, "");
  }

  void add(TokenKind kind, size_t from, std::string_view text) {
    while (line_ < lines_.size() && lines_[line_] <= from) ++line_;
    Token token;
    token.kind = kind;
    token.text = text;
    token.line = static_cast<int64_t>(line_);
    token.starts_line = fresh_;
    fresh_ = kind == TokenKind::newline;
    tokens_.push_back(std::move(token));
  }

  void name() {
    const size_t from = at_;
    while (is_in_name(now())) ++at_;
    const std::string_view word = text_.substr(from, at_ - from);
    if ((now() == '"' || now() == '\'') && is_prefix(word)) return literal(from, word);
    add(TokenKind::name, from, word);
  }

  // Letters that belong to the literal behind them.
  bool is_prefix(std::string_view word) const {
    if (!python_) {
      return word == "R" || word == "L" || word == "u" || word == "U" || word == "u8" ||
             word == "LR" || word == "uR" || word == "UR" || word == "u8R";
    }
    return word.size() <= 2 && std::all_of(word.begin(), word.end(), [](char c) {
             return std::string_view("rRbBuUfFtT").find(c) != std::string_view::npos;
           });
  }

  void number() {
    const size_t from = at_++;
    while (true) {
      const char c = now(), before = text_[at_ - 1];
      const bool has_exponent = std::string_view("eEpP").find(before) != std::string_view::npos;
      const bool is_signed = (c == '+' || c == '-') && has_exponent;
      const bool is_cut = !python_ && c == '\'' && is_in_name(now(1));
      if (!is_in_name(c) && c != '.' && !is_signed && !is_cut) break;
      ++at_;
    }
    add(TokenKind::number, from, text_.substr(from, at_ - from));
  }

  void literal(size_t from, std::string_view prefix) {
    const char quote = now();
    if (!python_ && prefix.ends_with('R') && quote == '"') return raw_literal(from);
    const std::string triple(3, quote);
    const bool is_triple = python_ && sees(triple);
    at_ += is_triple ? 3 : 1;
    const size_t begin = at_;
    size_t end = text_.size();
    while (at_ < text_.size()) {
      if (now() == '\\') {
        at_ += 2;
      } else if (is_triple ? sees(triple) : now() == quote) {
        end = at_;
        at_ += is_triple ? 3 : 1;
        break;
      } else if (now() == '\n' && !is_triple) {
        end = at_;  // it was none, or is broken
        break;
      } else {
        ++at_;
      }
    }
    at_ = std::min(at_, text_.size());
    add(TokenKind::text, from, text_.substr(begin, std::max(begin, end) - begin));
    tokens_.back().is_formatted = python_ && prefix.find_first_of("fFtT") != std::string_view::npos;
  }

  // R"mark( … )mark"
  void raw_literal(size_t from) {
    const size_t open = text_.find('(', at_);
    if (open == std::string_view::npos) return sign();
    const std::string close = ")" + std::string(text_.substr(at_ + 1, open - at_ - 1)) + "\"";
    const size_t end = std::min(text_.find(close, open), text_.size());
    at_ = std::min(end + close.size(), text_.size());
    add(TokenKind::text, from, text_.substr(open + 1, end - open - 1));
  }

  void sign() {
    const char c = now();
    if (python_ && c == ';' && depth_ == 0) {
      ++at_;
      return end_statement();
    }
    if (c == '(' || c == '[' || c == '{') ++depth_;
    if (c == ')' || c == ']' || c == '}') depth_ = std::max<int64_t>(depth_ - 1, 0);
    add(TokenKind::sign, at_, text_.substr(at_, 1));
    ++at_;
  }

  std::string_view text_;
  const std::vector<size_t>& lines_;
  bool python_;
  size_t at_ = 0, line_ = 0;
  int64_t depth_ = 0;
  bool fresh_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokens_of(std::string_view text, TokenSyntax syntax) {
  const Joined source = joined(text, syntax == TokenSyntax::cpp);
  return Lexer(source, syntax).run();
}

}  // namespace marathon
