#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <unordered_map>

#include "judge/profile.h"

namespace marathon {

namespace {

// The next line of `text`, which is shortened by it.
std::string_view take_line(std::string_view& text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(text.size(), line.size() + 1));
  return line;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

double number(std::string_view text) {
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

int64_t whole(std::string_view text) {
  int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// ---- callgrind

// "(3) name" defines a short form, "(3)" uses it.
class Names {
 public:
  std::string resolve(std::string_view text) {
    const size_t close = text.find(')');
    if (!text.starts_with('(') || close == std::string_view::npos) return std::string(text);
    const std::string id(text.substr(1, close - 1));
    if (close + 2 < text.size()) names_[id] = std::string(text.substr(close + 2));
    return names_[id];
  }

 private:
  std::unordered_map<std::string, std::string> names_;
};

class CallgrindReader {
 public:
  CallgrindFacts read(std::string_view text) {
    while (!text.empty()) read_line(take_line(text));
    for (auto& [place, instructions] : costs_)
      facts_.lines.push_back({place.first, place.second, instructions});
    std::sort(facts_.lines.begin(), facts_.lines.end(),
              [](const HotLine& a, const HotLine& b) { return a.instructions > b.instructions; });
    return std::move(facts_);
  }

 private:
  void read_line(std::string_view line) {
    if (line.starts_with("fl=") || line.starts_with("fi=") || line.starts_with("fe=")) {
      file_ = files_.resolve(line.substr(3));
    } else if (line.starts_with("cfi=") || line.starts_with("cfl=")) {
      files_.resolve(line.substr(4));  // may define a short form
    } else if (line.starts_with("calls=")) {
      skip_next_ = true;  // the cost of the callee, counted there as well
    } else if (line.starts_with("summary: ") || line.starts_with("totals: ")) {
      read_summary(line.substr(line.find(' ') + 1));
    } else if (!line.empty() && (std::isdigit(static_cast<unsigned char>(line[0])) ||
                                 line[0] == '+' || line[0] == '-' || line[0] == '*')) {
      read_cost(line);
    }
  }

  // "line Ir Dr Dw …"; a line number may be relative to the one before.
  void read_cost(std::string_view text) {
    const std::vector<std::string_view> parts = split(text, ' ');
    if (parts[0].starts_with('+'))
      line_ += whole(parts[0].substr(1));
    else if (parts[0].starts_with('-'))
      line_ -= whole(parts[0].substr(1));
    else if (parts[0] != "*")
      line_ = whole(parts[0]);
    if (!std::exchange(skip_next_, false) && parts.size() > 1)
      costs_[{file_, line_}] += number(parts[1]);
  }

  // "Ir Dr Dw I1mr D1mr D1mw …"
  void read_summary(std::string_view text) {
    const std::vector<std::string_view> parts = split(text, ' ');
    const auto at = [&](size_t i) { return i < parts.size() ? number(parts[i]) : 0; };
    facts_.instructions = at(0);
    facts_.reads = at(1);
    facts_.writes = at(2);
    facts_.read_misses = at(4);
    facts_.write_misses = at(5);
  }

  CallgrindFacts facts_;
  Names files_;
  std::string file_;
  int64_t line_ = 0;
  bool skip_next_ = false;
  std::map<std::pair<std::string, int64_t>, double> costs_;
};

}  // namespace

std::map<std::string, double> read_perf_stat(std::string_view text) {
  std::map<std::string, double> counts;
  while (!text.empty()) {
    const std::vector<std::string_view> parts = split(take_line(text), ',');
    if (parts.size() < 3 || parts[0].empty() || parts[0].starts_with('<')) continue;
    std::string_view name = parts[2];
    name = name.substr(0, name.find(':'));
    if (!name.empty()) counts[std::string(name)] = number(parts[0]);
  }
  return counts;
}

CallgrindFacts read_callgrind(std::string_view text) { return CallgrindReader().read(text); }

namespace {

// A loop around other loops is no loss: the inner ones are what becomes vectors.
bool is_a_nest(std::string_view why) {
  for (const char* word : {"inner loop", "nested loop", "loop nest", "outer-loop", "outer loop"}) {
    if (why.find(word) != std::string_view::npos) return true;
  }
  return false;
}

}  // namespace

VectorRemarks read_vector_remarks(std::string_view text) {
  constexpr std::string_view vectorised = "loop vectorized using ",
                             missed = "couldn't vectorize loop", why = "not vectorized: ";
  VectorRemarks remarks;
  while (!text.empty()) {
    const std::string_view line = take_line(text);
    const size_t end_of_place = line.find(": ");
    if (line.starts_with('/') || end_of_place == std::string_view::npos) continue;
    std::string_view place = line.substr(0, end_of_place);
    if (std::count(place.begin(), place.end(), ':') < 2) continue;  // "file:line:column"
    place = place.substr(0, place.rfind(':'));
    if (const size_t at = line.find(vectorised); at != std::string_view::npos) {
      ++remarks.vectorised;
      ++remarks.loops_by_bytes[whole(line.substr(at + vectorised.size()))];
    } else if (line.find(missed) != std::string_view::npos) {
      remarks.missed_loops.emplace_back(place, "");
    } else if (const size_t reason = line.find(why); reason != std::string_view::npos) {
      if (!remarks.missed_loops.empty() && remarks.missed_loops.back().second.empty())
        remarks.missed_loops.back().second = std::string(line.substr(reason + why.size()));
    } else {
      continue;
    }
    remarks.lines.emplace_back(line);
  }
  std::erase_if(remarks.missed_loops, [](const auto& loop) { return is_a_nest(loop.second); });
  remarks.missed = static_cast<int64_t>(remarks.missed_loops.size());
  return remarks;
}

// "solution.cc:12:5:int marathon_run(const MarathonArgs*)\t1344\tdynamic,bounded"
Frame largest_frame(std::string_view stack_usage) {
  Frame largest;
  while (!stack_usage.empty()) {
    const std::vector<std::string_view> parts = split(take_line(stack_usage), '\t');
    if (parts.size() < 2 || whole(parts[1]) <= largest.bytes) continue;
    std::string_view function = parts[0];
    for (int colon = 0; colon < 3 && function.find(':') != std::string_view::npos; ++colon)
      function.remove_prefix(function.find(':') + 1);
    largest = {std::string(function), whole(parts[1])};
  }
  return largest;
}

Spills count_spills(std::string_view listing) {
  Spills spills;
  while (!listing.empty()) {
    const std::string_view line = take_line(listing);
    const size_t tab = line.find(":\t");
    if (tab == std::string_view::npos) continue;
    ++spills.instructions;
    const std::string_view text = line.substr(tab + 2);
    const bool moves =
        text.starts_with("vmov") || text.starts_with("mova") || text.starts_with("movu");
    const bool stack = text.find("(%rsp)") != std::string_view::npos ||
                       text.find("(%rbp)") != std::string_view::npos;
    const bool vector = text.find("%xmm") != std::string_view::npos ||
                        text.find("%ymm") != std::string_view::npos ||
                        text.find("%zmm") != std::string_view::npos;
    if (moves && stack && vector) ++spills.vector_moves;
  }
  return spills;
}

}  // namespace marathon
