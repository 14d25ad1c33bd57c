// Text of compute-sanitizer: a finding begins at the left, what belongs to it is indented.
//
//   ========= Invalid __global__ write of size 4 bytes
//   =========     at scale+0x90 in solution.cu:5
//   =========     by thread (0,0,0) in block (0,0,0)
//   =========
//   ========= ERROR SUMMARY: 1 error
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "judge/sanitize.h"

namespace marathon {

namespace {

constexpr std::string_view prefix = "=========", summary_mark = " SUMMARY: ";
constexpr size_t max_kinds = 64, max_text_bytes = 160, shown_kinds = 3;
constexpr std::string_view known_findings[] = {
    "Invalid ",      "Uninitialized ", "Host API memory access error",
    "Barrier error", "Warpgroup MMA",  "Race reported",
    "Potential ",    "Malloc/Free"};

std::string_view take_line(std::string_view& text) {
  std::string_view line = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(text.size(), line.size() + 1));
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

std::string_view without_blanks(std::string_view text) {
  const size_t start = std::min(text.size(), text.find_first_not_of(' '));
  text.remove_prefix(start);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

// What follows the mark, or nothing.
std::optional<std::string_view> behind(std::string_view text, std::string_view mark) {
  const size_t at = text.find(mark);
  if (at == std::string_view::npos) return std::nullopt;
  return text.substr(at + mark.size());
}

template <class Number>
std::optional<Number> number_at(std::string_view text, int base) {
  Number value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc()) return std::nullopt;
  return value;
}

bool is_location(std::string_view text) {
  return text.starts_with("0x") || text.find("+0x") != std::string_view::npos;
}

// Of "scale(float *)+0x90 in a.cu:5" and of "0x90 in a.cu:5:scale(float *)": scale.
std::string kernel_of(std::string_view where) {
  if (where.starts_with("0x")) {
    where = behind(where, " in ").value_or(std::string_view());
    // A file and its line before it.
    for (size_t at = where.find(':'); at != std::string_view::npos; at = where.find(':', at + 1)) {
      const size_t end = where.find_first_not_of("0123456789", at + 1);
      if (end == at + 1 || end == std::string_view::npos || where[end] != ':') continue;
      where.remove_prefix(end + 1);
      break;
    }
  } else {
    where = where.substr(0, where.find("+0x"));
  }
  if (where.starts_with("void ")) where.remove_prefix(5);
  int depth = 0;
  size_t end = 0;
  for (; end < where.size() && !(where[end] == '(' && depth == 0); ++end)
    depth += where[end] == '<' ? 1 : where[end] == '>' ? -1 : 0;
  return std::string(without_blanks(where.substr(0, std::min(end, max_text_bytes))));
}

class Reader {
 public:
  explicit Reader(const AddressSpan& inputs) : inputs_(inputs) {}

  void read(std::string_view line) {
    if (!line.starts_with(prefix)) return;
    line.remove_prefix(prefix.size());
    const std::string_view text = without_blanks(line);
    if (line.starts_with("  "))
      add_detail(text);
    else if (text.find(summary_mark) != std::string_view::npos)
      read_summary(text);
    else
      begin(text);
  }

  SanitizerReport finish() {
    close();
    const int64_t all = std::max(printed_, summed_up_);
    report_.not_printed = all - printed_;
    report_.errors = all - report_.passed_over;
    return std::move(report_);
  }

 private:
  void begin(std::string_view text) {
    close();
    if (text.empty() || text == "COMPUTE-SANITIZER" || text.starts_with("Warning:")) return;
    const bool is_error = text.starts_with("Error: ");
    if (is_error) text.remove_prefix(7);
    open_ = true;
    header_ = text.substr(0, max_text_bytes);
    kind_ = text.substr(0, std::min(text.find(" at "), max_text_bytes));
    if (const auto where = behind(text, " access at "); where && is_location(*where)) {
      kernel_ = kernel_of(*where);
      kind_ = text.substr(0, text.find(" at "));
    }
  }

  void add_detail(std::string_view text) {
    if (!open_) return;  // of a warning
    if (const auto frame = behind(text, "Device Frame:"))
      return void(kernel_ = kernel_of(without_blanks(*frame)));  // the outermost comes last
    if (kernel_.empty()) {
      const auto where =
          text.starts_with("at ") ? std::optional(text.substr(3)) : behind(text, ") at ");
      if (where && is_location(*where)) kernel_ = kernel_of(*where);
    }
    if (kind_.starts_with("Race reported") && text.starts_with("and ") &&
        kind_.find(" and ") == std::string::npos)
      kind_ += " " + std::string(text.substr(0, std::min(text.find(" at "), max_text_bytes)));
    for (const std::string_view mark : {"Address 0x", "Uninitialized access at 0x"}) {
      if (const auto address = behind(text, mark); address && !address_)
        address_ = number_at<uint64_t>(*address, 16);
    }
  }

  void close() {
    if (!open_) return;
    const bool known = std::ranges::any_of(
        known_findings, [&](std::string_view start) { return kind_.starts_with(start); });
    if (known || !kernel_.empty())
      add();
    else if (report_.fault.empty())
      report_.fault = header_;
    open_ = false;
    kind_.clear();
    kernel_.clear();
    address_.reset();
  }

  void add() {
    ++printed_;
    if (is_of_the_judge()) return void(++report_.passed_over);
    std::vector<SanitizerFinding>& all = report_.findings;
    const auto same = std::ranges::find_if(all, [&](const SanitizerFinding& other) {
      return other.kind == kind_ && other.kernel == kernel_;
    });
    if (same != all.end())
      ++same->count;
    else if (all.size() < max_kinds)
      all.push_back({kind_, kernel_, 1});
  }

  bool is_of_the_judge() const {
    const bool is_read = kind_.starts_with("Uninitialized") || kind_.starts_with("Host API");
    return is_read && address_ && *address_ >= inputs_.begin &&
           *address_ - inputs_.begin < static_cast<uint64_t>(inputs_.bytes);
  }

  // "ERROR SUMMARY: 3 errors", "RACECHECK SUMMARY: 3 hazards displayed (2 errors, 1 warning)"; a
  // second line may say how many "were not printed": fewer than the first.
  void read_summary(std::string_view text) {
    close();
    std::string_view figures = *behind(text, summary_mark);
    if (const auto races = behind(figures, "displayed (")) figures = *races;
    const std::optional<int64_t> errors = number_at<int64_t>(figures, 10);
    if (!errors) return;
    report_.is_whole = true;
    summed_up_ = std::max(summed_up_, *errors);
  }

  AddressSpan inputs_;
  SanitizerReport report_;
  bool open_ = false;
  std::string header_, kind_, kernel_;
  std::optional<uint64_t> address_;
  int64_t printed_ = 0, summed_up_ = 0;
};

}  // namespace

SanitizerReport read_sanitizer(std::string_view log, const AddressSpan& inputs) {
  Reader reader(inputs);
  while (!log.empty()) reader.read(take_line(log));
  return reader.finish();
}

std::string findings_in_words(const SanitizerReport& report) {
  if (report.findings.empty()) return "of a kind that Marathon does not know";
  std::vector<SanitizerFinding> findings = report.findings;
  std::ranges::stable_sort(findings, std::greater(), &SanitizerFinding::count);
  std::string words;
  for (size_t i = 0; i < findings.size() && i < shown_kinds; ++i) {
    const SanitizerFinding& one = findings[i];
    words += fmt::format("{}{} ({}{}{})", i == 0 ? "" : "; ", one.kind,
                         one.count == 1 ? "once" : fmt::format("{} times", one.count),
                         one.kernel.empty() ? "" : ", in ", one.kernel);
  }
  if (findings.size() > shown_kinds)
    words += fmt::format("; and {} other kinds or kernels", findings.size() - shown_kinds);
  return words;
}

}  // namespace marathon
