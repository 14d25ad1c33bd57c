#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <regex>

#include "core/statistics.h"
#include "judge/command.h"

namespace marathon {

namespace {

// std::regex recurses once a character.
constexpr size_t max_line_bytes = 4000;
// A figure that falls to nothing is infinitely better; a number must stand in the log.
constexpr double endless_gain = 1e9;

Result<double> number_of(std::string_view text) {
  double value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code == std::errc() && end == text.data() + text.size()) return value;
  return fail(Fault::invalid,
              fmt::format("'{}' in the output of measure is not a number", text.substr(0, 100)));
}

Result<double> by_pointer(const CommandSpec& command, const std::string& out) {
  const Result<Json> json = parse_json(out);
  if (!json) return fail(Fault::invalid, "the output of measure is not JSON: " + json.error().what);
  try {
    const Json& value = json->at(Json::json_pointer(command.metric_json));
    if (value.is_number()) return value.get<double>();
  } catch (const Json::exception&) {
    // Named below: a missing field and one of another kind are the same to the author.
  }
  return fail(Fault::invalid,
              "there is no number at " + command.metric_json + " in the output of measure");
}

Result<double> by_regex(const CommandSpec& command, const std::string& out) {
  std::optional<double> figure;
  const std::regex expression(command.metric_regex);
  for (size_t at = 0; at < out.size();) {
    const size_t end = std::min(out.find('\n', at), out.size());
    const std::string line = out.substr(at, std::min(end - at, max_line_bytes));
    at = end + 1;
    std::smatch match;
    if (!std::regex_search(line, match, expression) || match.size() < 2) continue;
    const double value = TRY(number_of(match[1].str()));
    if (figure && *figure != value) {
      return fail(Fault::invalid,
                  fmt::format("the output of measure has two figures, {:g} and {:g}: it must print "
                              "one, and nothing else that matches {}",
                              *figure, value, command.metric_regex));
    }
    figure = value;
  }
  if (figure) return *figure;
  return fail(Fault::invalid, "no line of the output of measure matches " + command.metric_regex);
}

}  // namespace

Result<double> metric_in(const CommandSpec& command, const std::string& out) {
  if (!command.metric_json.empty()) return by_pointer(command, out);
  try {
    return by_regex(command, out);
  } catch (const std::regex_error& error) {
    return fail(Fault::invalid, fmt::format("[command] metric: '{}' cannot be used: {}",
                                            command.metric_regex, error.what()));
  }
}

bool is_constant(const std::vector<double>& samples) {
  return std::all_of(samples.begin(), samples.end(),
                     [&](double sample) { return sample == samples.front(); });
}

Interval gain_of(const CommandSpec& command, const std::vector<double>& other,
                 const std::vector<double>& own, bool paired) {
  const bool less = command.direction == Direction::minimize;
  const std::vector<double>&over = less ? other : own, &under = less ? own : other;
  const double above = median(over), below = median(under);
  if (below == 0) {
    const double gain = above == 0 ? 1 : endless_gain;
    return {gain, gain, gain};
  }
  const double ratio = above / below;
  // A zero among the samples has no logarithm to resample.
  const auto has_zero = [](const std::vector<double>& v) {
    return std::find(v.begin(), v.end(), 0.0) != v.end();
  };
  if ((is_constant(over) && is_constant(under)) || has_zero(over) || has_zero(under))
    return {ratio, ratio, ratio};
  std::vector<std::vector<PairedSamples>> restarts;
  if (paired) {
    for (size_t i = 0; i < std::min(over.size(), under.size()); ++i)
      restarts.push_back({PairedSamples{{over[i]}, {under[i]}}});
  } else {
    restarts.push_back({PairedSamples{over, under}});
  }
  Random random(7);  // the same samples give the same interval
  return bootstrap_ratio(restarts, {}, random);
}

}  // namespace marathon
