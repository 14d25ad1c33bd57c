#include "agent/space.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <span>

namespace marathon {

namespace {
constexpr int repair_steps = 24;
constexpr int random_tries = 8;
}  // namespace

Space::Space(const Task& task) : task_(&task) {
  for (const Parameter& parameter : task.parameters) {
    const bool ordered = parameter.kind == Parameter::Kind::define;
    values_.push_back(parameter.values);
    if (ordered) std::ranges::sort(values_.back());
    ordered_.push_back(ordered);
    const std::vector<int64_t>& values = values_.back();
    const int64_t start = std::ranges::find(values, parameter.start) - values.begin();
    start_.push_back(static_cast<char16_t>(std::min<int64_t>(start, std::ssize(values) - 1)));
  }
  decided_at_.resize(values_.size());
  for (size_t i = 0; i < task.constraints.size(); ++i) {
    std::vector<size_t> places;
    for (const std::string& name : task.constraints[i].names()) {
      const std::vector<Parameter>::const_iterator at =
          std::ranges::find(task.parameters, name, &Parameter::name);
      places.push_back(static_cast<size_t>(at - task.parameters.begin()));
    }
    if (!places.empty()) decided_at_[std::ranges::max(places)].push_back(i);
    names_.push_back(std::move(places));
  }
}

std::string Space::value_text(size_t parameter, size_t index) const {
  const Parameter& of = task_->parameters[parameter];
  if (of.kind == Parameter::Kind::define) return std::to_string(values_[parameter][index]);
  return of.flags[index].empty() ? "none" : of.flags[index];
}

bool Space::holds(size_t constraint, const Point& point) const {
  std::array<int64_t, 256> values;  // an expression has at most 256 names
  const std::vector<size_t>& places = names_[constraint];
  for (size_t i = 0; i < places.size(); ++i) values[i] = values_[places[i]][point[places[i]]];
  return task_->constraints[constraint]
      .evaluate(std::span(values).first(places.size()))
      .value_or(0);
}

std::optional<size_t> Space::broken_constraint(const Point& point) const {
  for (size_t i = 0; i < names_.size(); ++i) {
    if (!holds(i, point)) return i;
  }
  return std::nullopt;
}

bool Space::is_valid(const Point& point) const { return !broken_constraint(point); }

std::optional<Point> Space::locate(const Configuration& configuration) const {
  if (configuration.size() != values_.size()) return std::nullopt;
  Point point;
  for (size_t i = 0; i < values_.size(); ++i) {
    const Configuration::const_iterator at = configuration.find(task_->parameters[i].name);
    if (at == configuration.end()) return std::nullopt;
    const int64_t index = std::ranges::find(values_[i], at->second) - values_[i].begin();
    if (index == std::ssize(values_[i])) return std::nullopt;
    point.push_back(static_cast<char16_t>(index));
  }
  return point;
}

Configuration Space::configuration(const Point& point) const {
  Configuration configuration;
  for (size_t i = 0; i < values_.size(); ++i) {
    configuration[task_->parameters[i].name] = values_[i][point[i]];
  }
  return configuration;
}

bool Space::repair(Point& point, std::optional<size_t> kept, Random& random) const {
  for (int step = 0; step < repair_steps; ++step) {
    const std::optional<size_t> broken = broken_constraint(point);
    if (!broken) return true;
    std::vector<size_t> free;
    for (const size_t place : names_[*broken]) {
      if (place != kept && values_[place].size() > 1) free.push_back(place);
    }
    if (free.empty()) return false;
    // "FORM == 1 || (CHUNK == 16 && TILE == 32)": what a form does not use stands at its start.
    const bool to_start = random.uniform() < 0.7;
    const size_t place = free[random.below(free.size())];
    const char16_t other = static_cast<char16_t>(random.below(values_[place].size()));
    point[place] = to_start && point[place] != start_[place] ? start_[place] : other;
  }
  return is_valid(point);
}

std::optional<Point> Space::random_point(Random& random) const {
  for (int attempt = 0; attempt < random_tries; ++attempt) {
    Point point;
    for (const std::vector<int64_t>& values : values_) {
      point.push_back(static_cast<char16_t>(random.below(values.size())));
    }
    if (repair(point, std::nullopt, random)) return point;
  }
  return std::nullopt;
}

void Space::each_valid(Random& random, const std::function<bool(const Point&)>& visit) const {
  std::vector<std::vector<char16_t>> orders;
  for (const std::vector<int64_t>& values : values_) {
    std::vector<char16_t> order(values.size());
    std::iota(order.begin(), order.end(), char16_t{0});
    for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
    orders.push_back(std::move(order));
  }
  Point point(values_.size(), 0);
  visit_below(0, point, orders, visit);
}

bool Space::visit_below(size_t depth, Point& point,
                        const std::vector<std::vector<char16_t>>& orders,
                        const std::function<bool(const Point&)>& visit) const {
  if (depth == values_.size()) return visit(point);
  for (const char16_t index : orders[depth]) {
    point[depth] = index;
    const bool possible = std::ranges::all_of(
        decided_at_[depth], [&](size_t constraint) { return holds(constraint, point); });
    if (possible && !visit_below(depth + 1, point, orders, visit)) return false;
  }
  return true;
}

}  // namespace marathon
