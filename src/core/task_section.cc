#include "core/task_section.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace marathon {

namespace {

constexpr size_t max_kept = 200;
constexpr size_t max_message_bytes = 1000;

// Insertions, deletions, replacements and swaps of neighbours (optimal string alignment).
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1), now(b.size() + 1);
  std::iota(last.begin(), last.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    now[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      now[j] = std::min({last[j] + 1, now[j - 1] + 1, replaced});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) now[j] = std::min(now[j], before[j - 2] + 1);
    }
    std::swap(before, last);
    std::swap(last, now);
  }
  return last[b.size()];
}

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

std::string lowered(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(), lower);
  return result;
}

// At most `most` bytes, never a part of a character, control characters escaped: messages quote
// what others wrote, and a terminal obeys it.
std::string printable(std::string_view text, size_t most) {
  size_t end = std::min(text.size(), most);
  while (end < text.size() && end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) {
    --end;
  }
  std::string result;
  for (const char c : text.substr(0, end)) {
    const unsigned char byte = static_cast<unsigned char>(c);
    result += byte < 0x20 || byte == 0x7f ? fmt::format("\\x{:02x}", byte) : std::string(1, c);
  }
  return result + (end < text.size() ? "…" : "");
}

std::string range_text(Range range) {
  if (std::isinf(range.high)) {
    return fmt::format("{} {:g}", range.open_low ? "more than" : "at least", range.low);
  }
  if (range.open_low) return fmt::format("more than {:g} and at most {:g}", range.low, range.high);
  return fmt::format("between {:g} and {:g}", range.low, range.high);
}

}  // namespace

std::string in_quotes(std::string_view text) { return "'" + printable(text, 60) + "'"; }

std::optional<std::string> nearest(std::string_view text, std::span<const std::string> candidates) {
  const std::string wanted = lowered(text);
  const size_t limit = std::max<size_t>(1, std::min<size_t>(text.size(), 12) / 3 + 1);
  std::optional<std::string> best;
  size_t best_distance = limit + 1;
  for (const std::string& candidate : candidates) {
    const size_t longer = std::max(candidate.size(), text.size());
    const size_t shorter = std::min(candidate.size(), text.size());
    if (longer - shorter > limit) continue;  // also keeps a key of a megabyte from costing anything
    const size_t distance = edit_distance(wanted, lowered(candidate));
    if (distance < best_distance && distance < longer) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::string suggestion(std::string_view text, std::span<const std::string> candidates) {
  const std::optional<std::string> near = nearest(text, candidates);
  if (near) return fmt::format("; did you mean '{}'?", *near);
  if (candidates.empty()) return "; there is none";
  if (candidates.size() > 24) return "";
  if (candidates.size() == 1) return fmt::format("; there is only {}", candidates[0]);
  return fmt::format("; there are {} and {}",
                     fmt::join(candidates.begin(), candidates.end() - 1, ", "), candidates.back());
}

void Problems::error(Position at, const std::string& message) {
  ++errors_;
  add(at, false, message);
}

void Problems::warning(Position at, const std::string& message) { add(at, true, message); }

bool Problems::full() const { return found_.size() >= max_kept; }

void Problems::add(Position at, bool warning, const std::string& message) {
  if (full()) {
    ++left_out_;
    return;
  }
  found_.push_back({file_, at.line, at.column, warning, printable(message, max_message_bytes)});
}

std::vector<Diagnostic> Problems::sorted() && {
  std::ranges::stable_sort(found_, [](const Diagnostic& a, const Diagnostic& b) {
    return std::pair(a.line, a.column) < std::pair(b.line, b.column);
  });
  if (left_out_ > 0) {
    const Diagnostic last = found_.back();
    found_.push_back({file_, last.line, last.column, false,
                      fmt::format("{} more problems are not shown; mend these first", left_out_)});
  }
  return std::move(found_);
}

Position Problems::inside(const TomlValue& value, int64_t column) const {
  if (full()) return value.at;
  size_t start = 0;
  for (int64_t line = 1; line < value.at.line && start < text_.size(); ++line) {
    start = std::min(text_.find('\n', start), text_.size()) + 1;
  }
  const auto continues = [&](size_t at) {
    return at < text_.size() && (static_cast<unsigned char>(text_[at]) & 0xC0) == 0x80;
  };
  for (int64_t i = 1; i < value.at.column && start < text_.size(); ++i) {
    do ++start;
    while (continues(start));
  }
  const bool as_it_is = start + 1 < text_.size() &&
                        text_.substr(start + 1).starts_with(value.text) &&
                        value.text.find('\n') == std::string::npos;
  if (!as_it_is) return value.at;
  Position at = {value.at.line, value.at.column + 1};
  for (int64_t i = 1; i < column; ++i) {
    if (!continues(start + 1 + static_cast<size_t>(i))) ++at.column;
  }
  return at;
}

const TomlValue* Section::find(std::string_view key) {
  if (std::ranges::find(asked_, key) == asked_.end()) asked_.emplace_back(key);
  const std::vector<TomlEntry>::const_iterator entry =
      std::ranges::find(table_->entries, key, &TomlEntry::key);
  return entry == table_->entries.end() ? nullptr : &entry->value;
}

Position Section::at(std::string_view key) {
  const TomlValue* value = find(key);
  return value ? value->at : at_;
}

const TomlValue* Section::typed(std::string_view key, TomlValue::Type type) {
  const TomlValue* value = find(key);
  if (!value || value->type == type) return value;
  problems_->error(value->at, fmt::format("'{}' in {} must be {}, but is {}", key, name_,
                                          to_string(type), to_string(value->type)));
  return nullptr;
}

bool Section::read(std::string_view key, std::string& out) {
  const TomlValue* value = typed(key, TomlValue::Type::text);
  if (value) out = value->text;
  return value != nullptr;
}

bool Section::read(std::string_view key, bool& out) {
  const TomlValue* value = typed(key, TomlValue::Type::boolean);
  if (value) out = value->boolean;
  return value != nullptr;
}

bool Section::read(std::string_view key, int64_t& out, int64_t low, int64_t high) {
  const TomlValue* value = typed(key, TomlValue::Type::integer);
  if (!value) return false;
  if (value->integer < low || value->integer > high) {
    problems_->error(value->at, fmt::format("'{}' in {} is {}; it must be between {} and {}", key,
                                            name_, value->integer, low, high));
    return false;
  }
  out = value->integer;
  return true;
}

bool Section::read(std::string_view key, double& out, Range range) {
  const TomlValue* value = find(key);
  if (!value) return false;
  if (value->type != TomlValue::Type::integer && value->type != TomlValue::Type::number) {
    problems_->error(value->at, fmt::format("'{}' in {} must be a number, but is {}", key, name_,
                                            to_string(value->type)));
    return false;
  }
  const double number = value->number;
  const bool in_range = number >= range.low && number <= range.high &&
                        !(range.open_low && number == range.low) && std::isfinite(number);
  if (!in_range) {
    problems_->error(value->at, fmt::format("'{}' in {} is {:g}; it must be {}", key, name_, number,
                                            range_text(range)));
    return false;
  }
  out = number;
  return true;
}

bool Section::read(std::string_view key, std::vector<std::string>& out, size_t most) {
  const TomlValue* value = array(key);
  if (!value) return false;
  if (value->items.size() > most) {
    problems_->error(value->at, fmt::format("'{}' in {} has {} entries; at most {} are allowed",
                                            key, name_, value->items.size(), most));
    return false;
  }
  std::vector<std::string> texts;
  for (const TomlValue& item : value->items) {
    if (item.type != TomlValue::Type::text) {
      problems_->error(item.at, fmt::format("'{}' in {} must hold strings, but this is {}", key,
                                            name_, to_string(item.type)));
      return false;
    }
    texts.push_back(item.text);
  }
  out = std::move(texts);
  return true;
}

bool Section::read(std::string_view key, std::vector<int64_t>& out, size_t most) {
  const TomlValue* value = array(key);
  if (!value) return false;
  if (value->items.size() > most) {
    problems_->error(value->at, fmt::format("'{}' in {} has {} entries; at most {} are allowed",
                                            key, name_, value->items.size(), most));
    return false;
  }
  std::vector<int64_t> numbers;
  for (const TomlValue& item : value->items) {
    if (item.type != TomlValue::Type::integer) {
      problems_->error(item.at, fmt::format("'{}' in {} must hold whole numbers, but this is {}",
                                            key, name_, to_string(item.type)));
      return false;
    }
    numbers.push_back(item.integer);
  }
  out = std::move(numbers);
  return true;
}

const TomlValue* Section::table(std::string_view key) { return typed(key, TomlValue::Type::table); }

const TomlValue* Section::array(std::string_view key) { return typed(key, TomlValue::Type::array); }

std::vector<const TomlValue*> Section::tables(std::string_view key, size_t most) {
  const TomlValue* value = find(key);
  std::vector<const TomlValue*> result;
  if (!value) return result;
  const bool all_tables = value->type == TomlValue::Type::array &&
                          std::ranges::all_of(value->items, [](const TomlValue& item) {
                            return item.type == TomlValue::Type::table;
                          });
  if (!all_tables) {
    problems_->error(value->at, fmt::format("'{0}' must be a list of tables: write [[{0}]] before "
                                            "each of them",
                                            key));
    return result;
  }
  if (value->items.size() > most) {
    problems_->error(value->at, fmt::format("{} [[{}]] tables; at most {} are allowed",
                                            value->items.size(), key, most));
    return result;
  }
  for (const TomlValue& item : value->items) result.push_back(&item);
  return result;
}

void Section::require(std::string_view key, std::string_view advice) {
  if (!find(key)) problems_->error(at_, fmt::format("{} lacks '{}'; {}", name_, key, advice));
}

void Section::finish() {
  for (const TomlEntry& entry : table_->entries) {
    if (std::ranges::find(asked_, entry.key) != asked_.end()) continue;
    const std::string advice = problems_->full() ? "" : suggestion(entry.key, asked_);
    problems_->error(entry.at,
                     fmt::format("unknown key {} in {}{}", in_quotes(entry.key), name_, advice));
  }
}

std::optional<Expression> read_expression(const TomlValue& value, std::string_view kind,
                                          std::span<const std::string> declared,
                                          Problems& problems) {
  std::string text = value.text;
  if (value.type == TomlValue::Type::integer) text = fmt::format("{}", value.integer);
  if (value.type != TomlValue::Type::text && value.type != TomlValue::Type::integer) {
    problems.error(value.at, fmt::format("expected an expression in quotes, but this is {}",
                                         to_string(value.type)));
    return std::nullopt;
  }
  int64_t column = 1;
  const Result<Expression> parsed = Expression::parse(text, &column);
  if (!parsed) {
    problems.error(problems.inside(value, column),
                   fmt::format("in the expression {}: {}", in_quotes(text), parsed.error().what));
    return std::nullopt;
  }
  bool known = true;
  for (const std::string& name : parsed->names()) {
    if (std::ranges::find(declared, name) != declared.end()) continue;
    problems.error(value.at, fmt::format("no {} is named {} (in {}){}", kind, in_quotes(name),
                                         in_quotes(text), suggestion(name, declared)));
    known = false;
  }
  if (!known) return std::nullopt;
  return *parsed;
}

}  // namespace marathon
