// The embedded search. Pure: what comes next follows from task, seed and history alone, so that a
// run that was killed goes on as if nothing had happened.
//
//   1. the starting solution;
//   2. a Latin hypercube over the valid configurations, about an eighth of the budget: the values
//   of
//      each parameter are seen early and evenly;
//   3. then five draws of a bandit (Thompson sampling over what each arm gained) say which arms
//      offer candidates, and the surrogate picks the one with the largest expected improvement,
//      times the chance that it does not fail;
//   4. when the arms find nothing untried, every valid configuration is walked.
//
// On stall the parents are any of the four best instead of the best. A value that failed each of
// three times or more is left out while others are left. Measured figures: docs/performance.md.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "agent/agent.h"
#include "agent/past.h"
#include "agent/pool.h"
#include "agent/space.h"
#include "agent/surrogate.h"

namespace marathon {

namespace {

constexpr int draws = 5;  // of the bandit for one proposal
constexpr int deals = 6;  // of the Latin hypercube; the widest is taken
constexpr int64_t most_design = 12;

int64_t design_size(const Task& task, const Space& space) {
  const int64_t wanted =
      std::clamp<int64_t>(static_cast<int64_t>(space.parameters()), 4, most_design);
  if (task.budget.evaluations <= 0) return wanted;
  return std::clamp<int64_t>(task.budget.evaluations / 8, 3, wanted);
}

// Strata of one parameter, one for each point of the design, in random order. With more points than
// values they wrap round; with fewer they are spread over the values.
std::vector<char16_t> deal(size_t values, size_t count, Random& random) {
  std::vector<char16_t> dealt;
  const size_t shift = random.below(values);
  for (size_t k = 0; k < count; ++k) {
    const size_t value =
        count >= values ? (k + shift) % values : (k * values + random.below(values)) / count;
    dealt.push_back(static_cast<char16_t>(value));
  }
  for (size_t k = count; k > 1; --k) std::swap(dealt[k - 1], dealt[random.below(k)]);
  return dealt;
}

// Sum over the points of the (square root of the) distance to the nearest other one.
double spread_of(const std::vector<Point>& points) {
  double spread = 0;
  for (size_t a = 0; a < points.size(); ++a) {
    size_t nearest = points[a].size() + 1;
    for (size_t b = 0; b < points.size(); ++b) {
      if (a != b) nearest = std::min(nearest, distance(points[a], points[b]));
    }
    spread += std::sqrt(static_cast<double>(nearest));
  }
  return spread;
}

std::vector<Point> latin_hypercube(const Space& space, uint64_t seed, size_t count) {
  Random random(seed, "lhs");
  std::vector<Point> best;
  double best_spread = -1;
  for (int attempt = 0; attempt < deals; ++attempt) {
    std::vector<Point> points(count, Point(space.parameters(), 0));
    for (size_t i = 0; i < space.parameters(); ++i) {
      const std::vector<char16_t> dealt = deal(space.values_of(i), count, random);
      for (size_t k = 0; k < count; ++k) points[k][i] = dealt[k];
    }
    std::erase_if(points, [&](Point& point) { return !space.repair(point, std::nullopt, random); });
    const double spread = spread_of(points);
    if (spread <= best_spread) continue;
    best_spread = spread;
    best = std::move(points);
  }
  return best;
}

// Normal with the mean and deviation of the beta distribution; one success among four is expected.
double thompson(double gained, double lost, Random& random) {
  const double a = gained + 1, b = lost + 3;
  const double mean = a / (a + b);
  return mean + std::sqrt(mean * (1 - mean) / (a + b + 1)) * random.normal();
}

Arm draw_arm(const Past& past, Random& random) {
  size_t chosen = 0;
  double best = -1e9;
  for (size_t i = 0; i < arm_count; ++i) {
    const double value = thompson(past.gained[i], past.lost[i], random);
    if (value <= best) continue;
    best = value;
    chosen = i;
  }
  return static_cast<Arm>(chosen);
}

double expected_improvement(const Surrogate::Prediction& prediction, double best) {
  const double gain = prediction.mean - best;
  const double z = gain / prediction.deviation;
  const double below = std::erfc(-z * 0.7071067811865476) / 2;
  const double density = std::exp(-z * z / 2) * 0.3989422804014327;
  return std::max(gain * below + prediction.deviation * density, 0.0) * (1 - prediction.failure);
}

struct Choice {
  const Candidate* candidate = nullptr;
  double expected = 0;  // score; 0: no model
};

// As long as everything failed: as far as possible from all of it.
Choice pick_farthest(const std::vector<Candidate>& candidates, const Past& past) {
  Choice choice;
  size_t best = 0;
  for (const Candidate& candidate : candidates) {
    size_t nearest = candidate.point.size();
    for (const Observation& observation : past.observations) {
      nearest = std::min(nearest, distance(candidate.point, observation.point));
    }
    if (choice.candidate && nearest <= best) continue;
    best = nearest;
    choice.candidate = &candidate;
  }
  return choice;
}

Choice pick(const std::vector<Candidate>& candidates, const Space& space, const Past& past) {
  if (past.elites.empty()) return pick_farthest(candidates, past);
  const Surrogate surrogate(space, past.observations);
  Choice choice;
  double best = -1;
  for (const Candidate& candidate : candidates) {
    const Surrogate::Prediction prediction = surrogate.at(candidate.point);
    const double value = expected_improvement(prediction, past.best().y);
    if (value <= best) continue;
    best = value;
    choice = {&candidate, std::exp(prediction.mean)};
  }
  return choice;
}

// "CHUNK 32 → 64, FORM 0 → 1", at most four, and the category that they share.
std::string changes_text(const Space& space, const Point& from, const Point& to,
                         std::string& category) {
  std::string text;
  int64_t changes = 0;
  for (size_t i = 0; i < to.size(); ++i) {
    if (from[i] == to[i]) continue;
    const Parameter& parameter = space.parameter(i);
    if (++changes == 1) category = parameter.category;
    if (parameter.category != category) category = "several";
    if (changes > 4) continue;
    text += fmt::format("{}{} {} → {}", text.empty() ? "" : ", ", parameter.name,
                        space.value_text(i, from[i]), space.value_text(i, to[i]));
  }
  if (changes > 4) text += fmt::format(" and {} more", changes - 4);
  return text;
}

Proposal describe(const Choice& choice, const Space& space, const Past& past) {
  const Candidate& candidate = *choice.candidate;
  Proposal proposal;
  proposal.configuration = space.configuration(candidate.point);
  proposal.hypothesis = to_string(candidate.arm);
  const size_t reference = candidate.parent.value_or(past.elites.empty() ? 0 : past.elites.front());
  const Observation& from = past.observations[reference];
  proposal.hypothesis += ": " + changes_text(space, from.point, candidate.point, proposal.category);
  proposal.hypothesis += fmt::format(" from #{}", past.numbers[reference]);
  if (!from.failed) proposal.hypothesis += fmt::format(" ({:.2f}×)", std::exp(from.y));
  if (choice.expected > 0) proposal.hypothesis += fmt::format(", expects {:.2f}×", choice.expected);
  return proposal;
}

std::optional<Proposal> propose_design(const Task& task, const Space& space, const Past& past,
                                       uint64_t seed) {
  const int64_t size = design_size(task, space);
  if (std::ssize(past.observations) > size) return std::nullopt;
  const std::vector<Point> points = latin_hypercube(space, seed, static_cast<size_t>(size));
  for (size_t i = 0; i < points.size(); ++i) {
    if (past.tried.contains(points[i])) continue;
    return Proposal{
        space.configuration(points[i]),
        fmt::format("spread: point {} of {} of a Latin hypercube", i + 1, points.size()),
        "exploration"};
  }
  return std::nullopt;
}

}  // namespace

std::optional<Proposal> propose(const Task& task, uint64_t seed,
                                const std::vector<Trial>& history) {
  const Space space(task);
  const Past past = recall(space, history);
  if (!past.tried.contains(space.start()) && space.is_valid(space.start())) {
    return Proposal{space.configuration(space.start()), "start: the starting solution as it is",
                    "start"};
  }
  if (std::optional<Proposal> design = propose_design(task, space, past, seed)) return design;
  Random random(seed, fmt::format("search {}", history.size()));
  Pool pool(space, past, random);
  for (int i = 0; i < draws; ++i) pool.fill(draw_arm(past, random));
  for (size_t i = 0; i < arm_count && pool.candidates().empty(); ++i) {
    pool.fill(static_cast<Arm>(i));
  }
  if (pool.candidates().empty()) pool.fill_by_walking();
  if (pool.candidates().empty()) return std::nullopt;
  return describe(pick(pool.candidates(), space, past), space, past);
}

}  // namespace marathon
