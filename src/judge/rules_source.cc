// Rules on the text: its size and what the task forbids by regular expressions.
#include <fmt/format.h>

#include <algorithm>
#include <regex>

#include "judge/rules.h"

namespace marathon {

namespace {

// std::regex recurses once a character: longer lines are searched in windows that overlap, so that
// nothing hides behind a long line. Long runs of blanks are cut, or they would reach past the
// overlap.
constexpr size_t window_bytes = 2000, overlap_bytes = 400, most_blanks = 40;

struct Line {
  std::string text;
  int64_t number = 1;
};

// Lines as the compiler sees them: a backslash at the end joins the next one.
std::vector<Line> joined_lines(std::string_view text) {
  std::vector<Line> lines;
  int64_t number = 0;
  bool joins = false;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, end - at);
    at = end + 1;
    ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    const bool goes_on = line.ends_with('\\');
    if (goes_on) line.remove_suffix(1);
    if (joins)
      lines.back().text += line;
    else
      lines.push_back({std::string(line), number});
    joins = goes_on;
  }
  return lines;
}

std::string with_fewer_blanks(std::string_view text) {
  std::string result;
  size_t blanks = 0;
  for (const char c : text) {
    blanks = c == ' ' || c == '\t' ? blanks + 1 : 0;
    if (blanks <= most_blanks) result += c;
  }
  return result;
}

std::optional<std::string> find_in(const std::string& line, const std::regex& expression) {
  for (size_t at = 0;; at += window_bytes - overlap_bytes) {
    std::smatch match;
    const std::string window = line.substr(at, window_bytes);
    if (std::regex_search(window, match, expression)) return match.str();
    if (at + window_bytes >= line.size()) return std::nullopt;
  }
}

std::optional<std::string> find_pattern(const std::vector<SourceFile>& files,
                                        const std::regex& expression) {
  for (const SourceFile& file : files) {
    for (const Line& line : joined_lines(file.content)) {
      if (const std::optional<std::string> found =
              find_in(with_fewer_blanks(line.text), expression)) {
        return fmt::format("{}:{}: '{}' is forbidden by the task ([rules] forbidden_text)",
                           file.path.string(), line.number, found->substr(0, 100));
      }
    }
  }
  return std::nullopt;
}

}  // namespace

Result<std::optional<std::string>> broken_source_rule(const Task& task,
                                                      const std::vector<SourceFile>& editable) {
  int64_t bytes = 0;
  for (const SourceFile& file : editable) bytes += static_cast<int64_t>(file.content.size());
  if (bytes > task.rules.max_source_bytes) {
    return std::optional<std::string>(
        fmt::format("the source has {} bytes; the task allows {} ([rules] max_source_bytes)", bytes,
                    task.rules.max_source_bytes));
  }
  for (const std::string& pattern : task.rules.forbidden_text) {
    try {
      const std::regex expression(pattern, std::regex::ECMAScript | std::regex::optimize);
      if (std::optional<std::string> found = find_pattern(editable, expression)) return found;
    } catch (const std::regex_error& error) {
      return fail(Fault::invalid, fmt::format("[rules] forbidden_text: '{}' cannot be used ({}); "
                                              "write a simpler regular expression",
                                              pattern, error.what()));
    }
  }
  return std::optional<std::string>();
}

}  // namespace marathon
