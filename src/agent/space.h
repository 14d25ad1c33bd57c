// A task's configurations as points: for each parameter the index of its value. Inside of agent
// only.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/random.h"
#include "core/task.h"

namespace marathon {

using Point = std::u16string;  // hashes, compares and copies fast; at most 1,000 values a parameter

class Space {
 public:
  explicit Space(const Task& task);

  size_t parameters() const { return values_.size(); }
  size_t values_of(size_t parameter) const { return values_[parameter].size(); }
  // Macros have an order (8 < 16 < 32), compiler flags have none.
  bool is_ordered(size_t parameter) const { return ordered_[parameter]; }
  const Parameter& parameter(size_t i) const { return task_->parameters[i]; }
  std::string value_text(size_t parameter, size_t index) const;

  bool is_valid(const Point& point) const;
  std::optional<Point> locate(
      const Configuration& configuration) const;  // nothing: not of this space
  Configuration configuration(const Point& point) const;
  Point start() const { return start_; }

  // Makes `point` valid by changing other parameters than `kept` (or any), first back to their
  // starting values, then at random. False when it did not succeed in a few steps.
  bool repair(Point& point, std::optional<size_t> kept, Random& random) const;
  std::optional<Point> random_point(Random& random) const;

  // Every valid point, in an order that `random` shuffles, until `visit` returns false. Cuts off a
  // branch as soon as a constraint over the parameters chosen so far fails.
  void each_valid(Random& random, const std::function<bool(const Point&)>& visit) const;

 private:
  bool holds(size_t constraint, const Point& point) const;
  std::optional<size_t> broken_constraint(const Point& point) const;
  bool visit_below(size_t depth, Point& point, const std::vector<std::vector<char16_t>>& orders,
                   const std::function<bool(const Point&)>& visit) const;

  const Task* task_;
  std::vector<std::vector<int64_t>> values_;  // ascending where ordered
  std::vector<bool> ordered_;
  std::vector<std::vector<size_t>> names_;       // of each constraint: the parameters it looks at
  std::vector<std::vector<size_t>> decided_at_;  // constraints whose last parameter this one is
  Point start_;
};

}  // namespace marathon
