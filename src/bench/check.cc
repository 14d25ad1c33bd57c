#include "bench/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/clock.h"

namespace marathon {

namespace {

constexpr int32_t draws = 2;                 // independent inputs a shape
constexpr double window_aim_s = 0.002;       // a window this long makes the clocks' steps small
constexpr double round_cost_limit_s = 0.35;  // oracle and inputs of one round at a listed shape

int64_t last_axis(const Session& session, size_t tensor, const ShapePlan& plan) {
  const Result<std::vector<int64_t>> extents =
      extents_of(session.task, session.task.tensors[tensor], *plan.shape);
  return extents && !extents->empty() ? extents->back() : 1;
}

// Bounds from the emulation on this window's inputs, the widest over its sets.
void set_bounds(const Session& session, ShapePlan& plan, const Window& window,
                std::map<size_t, double>& emulation) {
  for (size_t set = 0; set < window.expected.size(); ++set) {
    for (const auto& [tensor, expected] : window.expected[set]) {
      const ErrorFigures honest =
          errors_of(window.emulated[set].at(tensor), expected, last_axis(session, tensor, plan));
      const ErrorBound bound =
          bound_of(session.task.tolerance, session.task.tensors[tensor].name, honest);
      plan.bounds[tensor] = wider(plan.bounds[tensor], bound);
      emulation[tensor] = std::max(emulation[tensor], honest.block);
    }
  }
}

void fill_errors(const Session& session, const ShapePlan& plan, const Window& window,
                 const Worker& worker, std::map<size_t, double>& emulation, ShapeResult& result) {
  for (const auto& [tensor, honest] : emulation) {
    OutputError output;
    output.output = session.task.tensors[tensor].name;
    output.bound = plan.bounds.at(tensor).block;
    output.emulation = honest;
    for (int32_t set = 0; set < draws; ++set) {
      const ErrorFigures figures = errors_of(output_of(session, plan, window, set, tensor, worker),
                                             window.expected[static_cast<size_t>(set)].at(tensor),
                                             last_axis(session, tensor, plan));
      output.relative_rms = std::max(output.relative_rms, figures.block);
      output.worst_element = std::max(output.worst_element, figures.element);
    }
    result.error = std::max(result.error, output.relative_rms);
    result.outputs.push_back(std::move(output));
  }
}

// The same inputs at other addresses must give the same bits: a difference is a race or a read of
// memory that nobody wrote.
bool repeats(Session& session, const ShapePlan& plan, const Window& window, Worker& worker) {
  std::vector<std::vector<double>> before;
  for (const auto& [tensor, expected] : window.expected[0])
    before.push_back(output_of(session, plan, window, 0, tensor, worker));
  Window moved = window;
  const Layout fresh = draw_layout(plan.sizes, window.layout.sets, session.random);
  for (size_t set = 0; set < moved.layout.tensors.size(); ++set) {
    for (size_t i = 0; i < plan.sizes.is_output.size(); ++i) {
      if (plan.sizes.is_output[i]) moved.layout.tensors[set][i] = fresh.tensors[set][i];
    }
    moved.layout.workspaces[set] = fresh.workspaces[set];
  }
  if (run_window(session, plan, moved, 1, worker, nullptr))
    return true;  // reported by the check itself
  size_t at = 0;
  for (const auto& [tensor, expected] : moved.expected[0]) {
    const std::vector<double> after = output_of(session, plan, moved, 0, tensor, worker);
    const bool same = std::equal(after.begin(), after.end(), before[at++].begin(),
                                 [](double a, double b) { return a == b || (a != a && b != b); });
    if (!same) return false;
  }
  return true;
}

// How many calls a window gets and how many rounds a restart, from what one call and one oracle
// cost.
void plan_windows(const Session& session, ShapePlan& plan) {
  const MeasurePlan& measure = session.task.measure;
  const double wanted = window_aim_s / std::max(plan.call_s, 1e-7);
  const int64_t at_least = std::max<int64_t>(measure.buffer_sets, 2);
  int64_t sets = std::clamp<int64_t>(static_cast<int64_t>(wanted) + 1, at_least, max_sets);
  const int64_t affordable =
      static_cast<int64_t>(round_cost_limit_s / std::max(plan.oracle_s, 1e-6));
  sets = std::clamp<int64_t>(sets, 2, std::max<int64_t>(affordable, 2));
  plan.sets = static_cast<int32_t>(std::min<int64_t>(sets, plan.sets));
  // With cold caches every call is a window of its own: the next one would find them warm.
  if (measure.cache == CacheState::cold) plan.sets = 1;
  plan.rounds = measure.rounds;
  if (static_cast<double>(plan.sets) * plan.oracle_s > 0.1)
    plan.rounds = std::max<int64_t>(3, measure.rounds / 2);
}

Result<std::optional<ShapeFailure>> check_shape(Session& session, ShapePlan& plan, Worker& worker,
                                                CheckResult& all) {
  ShapeResult result;
  result.name = plan.shape->name;
  result.set = std::string(to_string(plan.shape->set));
  const int64_t start = monotonic_ns();
  const Window window = TRY(make_window(session, plan, std::min(draws, plan.sets), true));
  plan.oracle_s = 1e-9 * static_cast<double>(monotonic_ns() - start) / draws /
                  2;  // half of it was the emulation
  std::map<size_t, double> emulation;
  set_bounds(session, plan, window, emulation);
  const int32_t sets = window.layout.sets;
  WindowTimes times;
  std::optional<ShapeFailure> failure = run_window(session, plan, window, sets, worker, &times);
  if (!failure) failure = check_window(session, plan, window, sets, worker);
  plan.call_s = 1e-9 * static_cast<double>(times.wall_ns) / sets;
  if (failure) {
    result.verdict = failure->kind;
    result.reason = failure->why;
  } else {
    if (sets == draws) fill_errors(session, plan, window, worker, emulation, result);
    if (plan.shape->set != ShapeSet::hidden)
      all.repeatable = repeats(session, plan, window, worker) && all.repeatable;
    if (plan.shape->set == ShapeSet::listed) plan_windows(session, plan);
  }
  all.shapes.push_back(std::move(result));
  return failure;
}

}  // namespace

bool is_looked_at(const Session& session, const ShapePlan& plan) {
  if (!session.request.quick) return true;
  if (plan.shape->set == ShapeSet::stress) return true;
  for (const ShapePlan& other : session.plans) {
    if (other.shape->set == ShapeSet::listed) return other.shape == plan.shape;
  }
  return false;
}

Result<CheckResult> check_candidate(Session& session, const std::filesystem::path& library) {
  CheckResult all;
  Worker worker = TRY(session.start(library));
  std::vector<size_t> order(session.plans.size());
  std::iota(order.begin(), order.end(), size_t{0});
  // A random order: a candidate cannot count calls to know which shape comes.
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[session.random.below(i)]);
  for (const size_t i : order) {
    ShapePlan& plan = session.plans[i];
    if (!is_looked_at(session, plan)) continue;
    if (std::optional<ShapeFailure> failure = TRY(check_shape(session, plan, worker, all))) {
      all.failure = std::move(failure);
      all.failed_shape = plan.shape->name;
      all.failed_set = std::string(to_string(plan.shape->set));
      break;
    }
  }
  std::sort(all.shapes.begin(), all.shapes.end(), [&](const ShapeResult& a, const ShapeResult& b) {
    const auto at = [&](const ShapeResult& r) {
      return std::find_if(session.task.shapes.begin(), session.task.shapes.end(),
                          [&](const Shape& s) { return s.name == r.name; });
    };
    return at(a) < at(b);
  });
  return all;
}

Result<std::map<std::string, double>> errors_at_listed(Session& session,
                                                       const std::filesystem::path& library) {
  std::map<std::string, double> errors;
  Worker worker = TRY(session.start(library));
  for (const ShapePlan& plan : session.plans) {
    if (plan.shape->set != ShapeSet::listed || !is_looked_at(session, plan)) continue;
    const Window window = TRY(make_window(session, plan, 1, false));
    if (run_window(session, plan, window, 1, worker, nullptr)) continue;
    for (const auto& [tensor, expected] : window.expected[0]) {
      const ErrorFigures figures = errors_of(output_of(session, plan, window, 0, tensor, worker),
                                             expected, last_axis(session, tensor, plan));
      errors[plan.shape->name] = std::max(errors[plan.shape->name], figures.block);
    }
  }
  return errors;
}

}  // namespace marathon
