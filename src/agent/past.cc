#include "agent/past.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace marathon {

namespace {

constexpr size_t elites_kept = 4;
constexpr int64_t failures_that_condemn = 3;
constexpr double gain_that_counts = 0.002;  // of log(score): less is noise
constexpr double forgetting = 0.96;         // an arm that paid off early may be exhausted

Arm arm_of(const Space& space, const Past& past, const Point& point) {
  size_t nearest = point.size() + 1;
  Arm arm = Arm::fresh;
  for (const size_t elite : past.elites) {
    const Point& from = past.observations[elite].point;
    const size_t changed = distance(from, point);
    if (changed >= nearest) continue;
    nearest = changed;
    if (changed == 2) arm = Arm::pair;
    if (changed != 1) continue;
    size_t at = 0;
    while (from[at] == point[at]) ++at;
    const bool next = from[at] + 1 == point[at] || point[at] + 1 == from[at];
    arm = next && space.is_ordered(at) ? Arm::step : Arm::jump;
  }
  if (nearest <= 2 || past.elites.size() < 2) return arm;
  const Point& a = past.observations[past.elites[0]].point;
  const Point& b = past.observations[past.elites[1]].point;
  for (size_t i = 0; i < point.size(); ++i) {
    if (point[i] != a[i] && point[i] != b[i]) return Arm::fresh;
  }
  return Arm::crossover;
}

Observation observation_of(const Trial& trial, Point point) {
  const bool failed = trial.failed || !std::isfinite(trial.score) || trial.score <= 0;
  const double noise = std::isfinite(trial.uncertainty) ? std::abs(trial.uncertainty) / 2 : 0;
  return {std::move(point), failed ? 0 : std::log(trial.score), noise, failed};
}

void add_elite(Past& past, size_t index) {
  const Observation& added = past.observations[index];
  // Measured twice: the newer figure counts, the configuration stands once.
  std::erase_if(past.elites,
                [&](size_t elite) { return past.observations[elite].point == added.point; });
  const std::vector<size_t>::iterator at = std::ranges::find_if(
      past.elites, [&](size_t elite) { return past.observations[elite].y < added.y; });
  past.elites.insert(at, index);
  if (past.elites.size() > elites_kept) past.elites.pop_back();
}

void credit(Past& past, Arm arm, bool gains) {
  for (double& count : past.gained) count *= forgetting;
  for (double& count : past.lost) count *= forgetting;
  (gains ? past.gained : past.lost)[static_cast<size_t>(arm)] += 1;
}

// A value that failed each time, while the parameter has another that worked.
void condemn(const Space& space, Past& past) {
  for (size_t i = 0; i < space.parameters(); ++i) {
    std::vector<int64_t> failed(space.values_of(i)), worked(space.values_of(i));
    for (const Observation& observation : past.observations) {
      ++(observation.failed ? failed : worked)[observation.point[i]];
    }
    const bool some_work = std::ranges::any_of(worked, [](int64_t count) { return count > 0; });
    std::vector<bool> out(space.values_of(i));
    for (size_t v = 0; v < out.size(); ++v) {
      out[v] = some_work && worked[v] == 0 && failed[v] >= failures_that_condemn;
    }
    past.condemned.push_back(std::move(out));
  }
}

}  // namespace

std::string_view to_string(Arm arm) {
  switch (arm) {
    case Arm::step:
      return "climb";
    case Arm::jump:
      return "jump";
    case Arm::pair:
      return "pair";
    case Arm::crossover:
      return "cross";
    case Arm::fresh:
      return "explore";
  }
  return "";
}

size_t distance(const Point& a, const Point& b) {
  size_t result = 0;
  for (size_t i = 0; i < a.size(); ++i) result += a[i] != b[i] ? 1 : 0;
  return result;
}

bool Past::is_condemned(const Point& point) const {
  for (size_t i = 0; i < point.size(); ++i) {
    if (condemned[i][point[i]]) return true;
  }
  return false;
}

Past recall(const Space& space, const std::vector<Trial>& history) {
  Past past;
  for (size_t i = 0; i < history.size(); ++i) {
    const std::optional<Point> point = space.locate(history[i].configuration);
    if (!point) continue;
    Observation observation = observation_of(history[i], *point);
    const bool gains = !observation.failed &&
                       (past.elites.empty() || observation.y > past.best().y + gain_that_counts);
    const bool first = past.tried.insert(*point).second;
    if (first && !past.elites.empty()) credit(past, arm_of(space, past, *point), gains);
    past.since_gain = gains ? 0 : past.since_gain + 1;
    const int64_t place = static_cast<int64_t>(i) + 1;
    past.numbers.push_back(history[i].number > 0 ? history[i].number : place);
    past.observations.push_back(std::move(observation));
    if (!past.observations.back().failed) add_elite(past, past.observations.size() - 1);
  }
  condemn(space, past);
  return past;
}

}  // namespace marathon
