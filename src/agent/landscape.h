// Landscapes with a known value everywhere, for the tests of the search: main effects of different
// weight, interactions, one parameter that decides what others mean, a region that fails.
#pragma once

#include <cmath>
#include <map>
#include <vector>

#include "agent/agent.h"
#include "base/random.h"

namespace marathon {

struct Landscape {
  Task task;
  std::map<Configuration, double> score;  // of every valid configuration; 0: it fails
};

inline Landscape make_landscape(uint64_t seed, const std::vector<int64_t>& sizes, bool gated) {
  Random random(seed, "landscape");
  Landscape land;
  std::vector<std::vector<double>> main;
  for (size_t i = 0; i < sizes.size(); ++i) {
    Parameter parameter;
    parameter.name = "P" + std::to_string(i);
    parameter.category = i < 3 ? "tiling" : "layout";
    const bool flag = i % 4 == 3;
    const double weight = 0.25 * std::exp(random.normal());
    const double optimum = random.uniform() * static_cast<double>(sizes[i] - 1);
    main.emplace_back();
    for (int64_t v = 0; v < sizes[i]; ++v) {
      parameter.values.push_back(flag ? v : 1LL << v);
      if (flag) parameter.flags.push_back("-f" + std::to_string(v));
      const double off = std::abs(static_cast<double>(v) - optimum) / static_cast<double>(sizes[i]);
      main.back().push_back(flag ? 0.5 * weight * random.normal() : -1.5 * weight * off);
    }
    if (flag) parameter.kind = Parameter::Kind::flag;
    parameter.start = parameter.values[0];
    land.task.parameters.push_back(std::move(parameter));
  }
  if (gated) {
    land.task.constraints.push_back(*Expression::parse("P0 != 1 || (P1 == 1 && P2 == 1)"));
    land.task.constraints.push_back(*Expression::parse("P1 * P2 <= 64"));
  }
  std::map<std::pair<size_t, size_t>, std::vector<double>> pairs;
  for (size_t i = 0; i < sizes.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (random.uniform() > 0.3) continue;
      const double weight = 0.12 * std::exp(0.7 * random.normal());
      for (int64_t n = 0; n < sizes[i] * sizes[j]; ++n) {
        pairs[{i, j}].push_back(weight * random.normal());
      }
    }
  }
  const size_t bad = 1 + random.below(sizes.size() - 1);
  const size_t bad_value = 1 + random.below(static_cast<uint64_t>(sizes[bad] - 1));
  std::vector<size_t> at(sizes.size(), 0);
  while (true) {
    Configuration configuration;
    double log_score = 0;
    for (size_t i = 0; i < at.size(); ++i) {
      configuration[land.task.parameters[i].name] = land.task.parameters[i].values[at[i]];
      const bool turned = gated && at[0] + 1 == static_cast<size_t>(sizes[0]) && i > at.size() / 2;
      log_score += main[i][at[i]] * (turned ? -0.8 : 1);
    }
    for (const auto& [pair, values] : pairs) {
      log_score +=
          values[at[pair.first] * static_cast<size_t>(sizes[pair.second]) + at[pair.second]];
    }
    const bool fails = at[bad] == bad_value && at[0] == 0;
    if (is_valid(land.task, configuration))
      land.score[configuration] = fails ? 0 : std::exp(log_score);
    size_t digit = 0;
    while (digit < at.size() && ++at[digit] == static_cast<size_t>(sizes[digit])) at[digit++] = 0;
    if (digit == at.size()) return land;
  }
}

}  // namespace marathon
