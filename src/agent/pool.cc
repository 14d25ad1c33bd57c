#include "agent/pool.h"

namespace marathon {

namespace {

constexpr size_t pool_size = 48;    // of one arm: as many as the surrogate can rank in 0.5 ms
constexpr int64_t stall_after = 8;  // trials without gain

Point with(Point point, size_t parameter, size_t value) {
  point[parameter] = static_cast<char16_t>(value);
  return point;
}

}  // namespace

void Pool::fill(Arm arm) {
  const bool from_scratch = past_.elites.empty() || space_.parameters() == 0;
  if (from_scratch) return fresh();
  switch (arm) {
    case Arm::step:
      return steps();
    case Arm::jump:
      return jumps();
    case Arm::pair:
      return pairs();
    case Arm::crossover:
      return crossovers();
    case Arm::fresh:
      return fresh();
  }
}

// Condemned values come last: only when nothing else is left.
void Pool::fill_by_walking() {
  std::vector<Candidate> last;
  space_.each_valid(random_, [&](const Point& point) {
    if (past_.tried.contains(point)) return true;
    std::vector<Candidate>& list = past_.is_condemned(point) ? last : candidates_;
    if (list.size() < pool_size) list.push_back({point, Arm::fresh, std::nullopt});
    return candidates_.size() < pool_size;
  });
  if (candidates_.empty()) candidates_ = std::move(last);
}

// The best most of the time. On stall any of the elites: a restart that keeps what was learned.
size_t Pool::choose_parent() {
  const double greed = past_.since_gain > stall_after ? 0.4 : 0.75;
  if (random_.uniform() < greed) return past_.elites.front();
  return past_.elites[random_.below(past_.elites.size())];
}

void Pool::offer(Point point, std::optional<size_t> kept, Arm arm, std::optional<size_t> parent) {
  if (!space_.is_valid(point) && !space_.repair(point, kept, random_)) return;
  if (past_.tried.contains(point) || past_.is_condemned(point)) return;
  if (!seen_.insert(point).second) return;
  candidates_.push_back({std::move(point), arm, parent});
}

void Pool::steps() {
  const size_t parent = choose_parent();
  const Point& point = past_.observations[parent].point;
  for (size_t i = 0; i < point.size(); ++i) {
    if (!space_.is_ordered(i)) continue;
    const size_t value = point[i];
    if (value > 0) offer(with(point, i, value - 1), i, Arm::step, parent);
    if (value + 1 < space_.values_of(i)) offer(with(point, i, value + 1), i, Arm::step, parent);
  }
}

void Pool::jumps() {
  const size_t parent = choose_parent();
  const Point& point = past_.observations[parent].point;
  size_t others = 0;
  for (size_t i = 0; i < point.size(); ++i) others += space_.values_of(i) - 1;
  for (size_t i = 0; i < point.size(); ++i) {
    for (size_t value = 0; value < space_.values_of(i); ++value) {
      const bool left_out = others > pool_size && random_.below(others) >= pool_size;
      if (value != point[i] && !left_out) offer(with(point, i, value), i, Arm::jump, parent);
    }
  }
}

void Pool::pairs() {
  const size_t parent = choose_parent();
  for (size_t n = 0; n < pool_size; ++n) {
    Point changed = past_.observations[parent].point;
    const size_t first = change_one(changed);
    change_one(changed);
    offer(std::move(changed), first, Arm::pair, parent);
  }
}

void Pool::crossovers() {
  for (size_t n = 0; n < pool_size; ++n) {
    const size_t parent = choose_parent();
    const size_t other = past_.elites[random_.below(past_.elites.size())];
    Point mixed = past_.observations[parent].point;
    for (size_t i = 0; i < mixed.size(); ++i) {
      if (random_.below(2) == 0) mixed[i] = past_.observations[other].point[i];
    }
    offer(std::move(mixed), std::nullopt, Arm::crossover, parent);
  }
}

void Pool::fresh() {
  for (size_t n = 0; n < pool_size; ++n) {
    std::optional<Point> point = space_.random_point(random_);
    if (point) offer(*std::move(point), std::nullopt, Arm::fresh, std::nullopt);
  }
}

size_t Pool::change_one(Point& point) {
  const size_t i = random_.below(point.size());
  const size_t values = space_.values_of(i);
  if (values > 1) {
    point[i] = static_cast<char16_t>((point[i] + 1 + random_.below(values - 1)) % values);
  }
  return i;
}

}  // namespace marathon
