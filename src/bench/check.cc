#include "bench/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/clock.h"
#include "bench/parallel.h"
#include "bench/peaks.h"

namespace marathon {

namespace {

constexpr int32_t draws = 2;             // independent inputs a shape
constexpr double window_aim_s = 0.0012;  // a window this long makes the clocks' steps small
constexpr double short_call_s = 50e-6;   // shorter ones get a window before that warms up
constexpr double oracle_limit_s = 2.0;   // at one listed shape, over all its problems
constexpr double long_call_s = 300e-6;
constexpr int64_t arena_limit = 512 << 20, answers_limit = 512 << 20, window_bytes = 64 << 20;

// Two problems and their answers, bounds from the emulation, the widest over both.
struct Drawn {
  std::vector<Solved> problems;
  std::map<size_t, double> emulation;  // worst block of the honest emulation, by output

  Result<Window> window(const ShapePlan& plan) const {
    std::vector<const Solved*> all;
    for (const Solved& problem : problems) all.push_back(&problem);
    return Window::make(plan, all);
  }
};

Result<Drawn> draw(Session& session, ShapePlan& plan) {
  Drawn drawn;
  drawn.problems.resize(draws);
  std::vector<uint64_t> seeds;
  seeds.reserve(draws);
  for (int32_t i = 0; i < draws; ++i) seeds.push_back(session.random.next());
  const int64_t start = monotonic_ns();
  TRY(in_parallel(draws, [&](int64_t i) -> Status {
    const size_t at = static_cast<size_t>(i);
    drawn.problems[at] = TRY(solve(session, plan, seeds[at], Keep::inputs, true));
    return {};
  }));
  // Half of it was the emulation.
  plan.oracle_s = 1e-9 * static_cast<double>(monotonic_ns() - start) / draws / 2;
  for (const Solved& problem : drawn.problems) {
    for (size_t tensor = 0; tensor < plan.extents.size(); ++tensor) {
      if (!plan.sizes.is_output[tensor]) continue;
      const ErrorFigures honest =
          errors_of(problem.emulated[tensor], problem.expected[tensor], plan.extents[tensor]);
      const ErrorBound bound =
          bound_of(session.task.tolerance, session.task.tensors[tensor].name, honest);
      plan.bounds[tensor] = wider(plan.bounds[tensor], bound);
      drawn.emulation[tensor] = std::max(drawn.emulation[tensor], honest.block);
    }
  }
  return drawn;
}

double seconds_a_call(const Run& run, int32_t calls) {
  return 1e-9 * static_cast<double>(run.times.wall_ns) / calls;
}

// Errors of each output, the worst over the sets of the window.
std::vector<OutputError> errors_in(const Session& session, const ShapePlan& plan,
                                   const Drawn& drawn, const Run& run, const Worker& worker) {
  std::vector<OutputError> errors;
  for (const auto& [tensor, honest] : drawn.emulation) {
    const Tensor& output = session.task.tensors[tensor];
    const std::vector<int64_t>& extents = plan.extents[tensor];
    OutputError error{output.name, 0, plan.bounds.at(tensor).block, honest, 0, ""};
    for (int32_t set = 0; set < draws; ++set) {
      const ErrorFigures figures =
          errors_of(output_of(session, plan, run, set, tensor, worker),
                    drawn.problems[static_cast<size_t>(set)].expected[tensor], extents);
      error.worst_element = std::max(error.worst_element, figures.element);
      if (figures.block < error.relative_rms || figures.block == 0) continue;
      error.relative_rms = figures.block;
      error.where = place_in_words(output, extents, figures.worst_block, figures.worst_block_end);
    }
    errors.push_back(std::move(error));
  }
  return errors;
}

double worst_of(const std::vector<OutputError>& errors) {
  double worst = 0;
  for (const OutputError& error : errors) worst = std::max(worst, error.relative_rms);
  return worst;
}

std::vector<Values> outputs_of(const Session& session, const ShapePlan& plan, const Run& run,
                               const Worker& worker) {
  std::vector<Values> outputs;
  for (const auto& [tensor, bound] : plan.bounds)
    outputs.push_back(output_of(session, plan, run, 0, tensor, worker));
  return outputs;
}

bool same_bits(const std::vector<Values>& a, const std::vector<Values>& b) {
  const auto same = [](double x, double y) { return x == y || (x != x && y != y); };
  for (size_t i = 0; i < a.size(); ++i) {
    if (!std::equal(a[i].begin(), a[i].end(), b[i].begin(), same)) return false;
  }
  return true;
}

// Problems at one shape that time and memory allow.
int64_t affordable_problems(const ShapePlan& plan) {
  int64_t answer_bytes = 1;
  for (size_t i = 0; i < plan.sizes.is_output.size(); ++i) {
    // At least two bytes an element in the tensor, eight in the oracle's answer.
    if (plan.sizes.is_output[i]) answer_bytes += 4 * plan.sizes.tensor_bytes[i];
  }
  const int64_t by_time = static_cast<int64_t>(oracle_limit_s / std::max(plan.oracle_s, 1e-6));
  return std::min(by_time, answers_limit / answer_bytes);
}

// How many calls a window gets and how many rounds a restart, from what one call and one oracle
// cost.
void plan_windows(const Session& session, ShapePlan& plan, double fastest_call_s) {
  const MeasurePlan& measure = session.task.measure;
  const int64_t wanted = static_cast<int64_t>(window_aim_s / std::max(fastest_call_s, 1e-7)) + 1;
  const int64_t touched = static_cast<int64_t>(plan.touched_bytes()) + 1;
  // Longer windows only as far as the last level of cache holds them: beyond, warm is not warm.
  const int64_t fit = std::max<int64_t>(last_level_cache_bytes() / 2 / touched, 1);
  int64_t sets =
      std::clamp<int64_t>(std::max(std::min(wanted, fit), measure.buffer_sets), 2, max_sets);
  // A call on large data is long enough alone, and drawing its inputs takes longer.
  if (fastest_call_s > long_call_s) sets = std::clamp<int64_t>(window_bytes / touched, 1, sets);
  const int64_t one = std::max(input_arena_bytes(plan.sizes, 1), output_arena_bytes(plan.sizes, 1));
  sets = std::min(sets, std::max<int64_t>(1, arena_limit / one));
  plan.rounds = measure.rounds;
  const int64_t affordable = affordable_problems(plan);
  if (sets * (plan.rounds + 1) > affordable) sets = std::min<int64_t>(sets, 2);
  if (sets * (plan.rounds + 1) > affordable) plan.rounds = std::min<int64_t>(plan.rounds, 3);
  plan.sets = static_cast<int32_t>(sets);
  plan.warm_up_sets = fastest_call_s < short_call_s ? 2 : 0;
}

class Checker {
 public:
  Checker(Session& session, Worker& worker, Worker* baseline)
      : session_(session), worker_(worker), baseline_(baseline) {}

  // False: the candidate failed, the rest need not be run.
  Result<bool> at_shape(ShapePlan& plan) {
    const Drawn drawn = TRY(draw(session_, plan));
    const Window window = TRY(drawn.window(plan));
    ShapeResult result;
    result.name = plan.shape->name;
    result.set = std::string(to_string(plan.shape->set));
    Run run;
    std::optional<ShapeFailure> failure =
        run_window(session_, plan, window, worker_, CacheState::warm, run);
    if (!failure) {
      result.outputs = errors_in(session_, plan, drawn, run, worker_);
      result.error = worst_of(result.outputs);
      failure = check_window(session_, plan, window, run, worker_);
    }
    if (failure) {
      result.verdict = failure->kind;
      result.reason = failure->why;
      fail_at(plan, std::move(*failure));
    } else {
      plan.call_s = seconds_a_call(run, draws);
      if (const std::optional<ShapeFailure> second = repeat(plan, window, run))
        fail_at(plan, *second);
      if (plan.shape->set == ShapeSet::listed) look_at_baseline(plan, drawn, window, result);
    }
    all_.shapes.push_back(std::move(result));
    return !all_.failure;
  }

  CheckResult take() {
    const auto place = [&](const ShapeResult& result) {
      return std::find_if(session_.task.shapes.begin(), session_.task.shapes.end(),
                          [&](const Shape& shape) { return shape.name == result.name; });
    };
    std::sort(all_.shapes.begin(), all_.shapes.end(),
              [&](const ShapeResult& a, const ShapeResult& b) { return place(a) < place(b); });
    return std::move(all_);
  }

 private:
  void fail_at(const ShapePlan& plan, ShapeFailure failure) {
    all_.failure = std::move(failure);
    all_.failed_shape = plan.shape->name;
    all_.failed_set = std::string(to_string(plan.shape->set));
  }

  // The same inputs at other addresses must give the same bits: a difference is a race or a read of
  // memory that nobody wrote. And a second call tells better how long one takes.
  std::optional<ShapeFailure> repeat(ShapePlan& plan, const Window& window, const Run& first) {
    const std::vector<Values> before = outputs_of(session_, plan, first, worker_);
    const Solved* again[] = {&window.problem(0)};
    const Result<Window> one = Window::make(plan, again);
    if (!one) return std::nullopt;
    Run second;
    if (std::optional<ShapeFailure> failure =
            run_window(session_, plan, *one, worker_, CacheState::warm, second))
      return failure;
    plan.call_s = std::min(plan.call_s, seconds_a_call(second, 1));
    if (!same_bits(before, outputs_of(session_, plan, second, worker_)))
      all_.not_repeatable = plan.shape->name;
    return check_window(session_, plan, *one, second, worker_);
  }

  void look_at_baseline(ShapePlan& plan, const Drawn& drawn, const Window& window,
                        ShapeResult& result) {
    double fastest_s = plan.call_s;
    if (baseline_) {
      Run run;
      std::optional<ShapeFailure> failure =
          run_window(session_, plan, window, *baseline_, CacheState::warm, run);
      if (!failure) {
        result.baseline_error = worst_of(errors_in(session_, plan, drawn, run, *baseline_));
        fastest_s = std::min(fastest_s, seconds_a_call(run, draws));
        failure = check_window(session_, plan, window, run, *baseline_);
      }
      if (failure) all_.baseline_trouble = "shape " + plan.shape->name + ": " + failure->why;
    }
    plan_windows(session_, plan, fastest_s);
  }

  Session& session_;
  Worker& worker_;
  Worker* baseline_;
  CheckResult all_;
};

}  // namespace

Result<CheckResult> check_candidate(Session& session, const std::filesystem::path& library,
                                    const std::filesystem::path& baseline) {
  int64_t input_bytes = 0, output_bytes = 0;
  std::vector<size_t> order;
  for (size_t i = 0; i < session.plans.size(); ++i) {
    const ShapePlan& plan = session.plans[i];
    if (!is_looked_at(session, plan)) continue;
    order.push_back(i);
    input_bytes = std::max(input_bytes, input_arena_bytes(plan.sizes, draws));
    output_bytes = std::max(output_bytes, output_arena_bytes(plan.sizes, draws));
  }
  Worker worker = TRY(session.start(library, input_bytes, output_bytes));
  std::optional<Worker> beside;
  if (!baseline.empty()) beside.emplace(TRY(session.start(baseline, input_bytes, output_bytes)));
  Checker checker(session, worker, beside ? &*beside : nullptr);
  // A random order: a candidate cannot count calls to know which shape comes.
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[session.random.below(i)]);
  for (const size_t i : order) {
    if (!TRY(checker.at_shape(session.plans[i]))) break;
  }
  return checker.take();
}

}  // namespace marathon
