#include "bench/measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "bench/problem_bank.h"

namespace marathon {

namespace {

constexpr double constant_part_ns = 100'000;

constexpr int empty_windows = 9;
// Wall above CPU: something else ran.
constexpr double disturbed_share = 0.03, disturbed_ns = 30'000;
// CPU above wall: more than one thread, or work before the question or after the answer.
constexpr double overworked_share = 0.05, overworked_ns = 100'000;
constexpr int64_t attempts_a_round = 3;
constexpr int32_t first_window_sets = 2, other_cache_windows = 2;
constexpr int slope_pairs = 9;
constexpr int64_t kept_inputs_limit = 384 << 20;

struct Runner {
  Arm arm;
  Worker worker;
  double empty_wall_ns = 0, empty_cpu_ns = 0;
};

// A window's times without what asking and answering cost.
struct Net {
  double wall_ns = 0, cpu_ns = 0;

  bool is_disturbed() const { return wall_ns - cpu_ns > disturbed_share * wall_ns + disturbed_ns; }
  bool is_overworked() const {
    return cpu_ns - wall_ns > overworked_share * wall_ns + overworked_ns;
  }
};

// Not less than a tenth of the gross: the empty window is only an estimate.
Net net_of(const WindowTimes& times, const Runner& runner) {
  const double wall = static_cast<double>(times.wall_ns), cpu = static_cast<double>(times.cpu_ns);
  return {std::max(wall - runner.empty_wall_ns, 0.1 * wall),
          std::max(cpu - runner.empty_cpu_ns, 0.0)};
}

std::vector<std::vector<size_t>> all_orders(size_t count) {
  std::vector<std::vector<size_t>> orders;
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  do {
    orders.push_back(order);
  } while (std::next_permutation(order.begin(), order.end()));
  return orders;
}

class Measurer {
 public:
  Measurer(Session& session, const std::vector<std::filesystem::path>& libraries,
           const MeasureOptions& options)
      : session_(session), libraries_(libraries), options_(options) {
    result_.samples.resize(arm_count);
    int64_t left = kept_inputs_limit;
    for (const ShapePlan& plan : session.plans) {
      if (plan.shape->set != ShapeSet::listed || !is_looked_at(session, plan)) continue;
      result_.shapes.push_back(&plan);
      left -= plan.input_bytes() * problems_needed(plan, plan.rounds, true);
      banks_.emplace_back(session, plan, left >= 0 ? Keep::inputs : Keep::seed);
    }
    result_.other_cache_ns.resize(result_.shapes.size());
    decides_ = session.task.measure.cache;
  }

  Result<Measurement> run() {
    for (int64_t restart = 0; restart < options_.restarts; ++restart) {
      const bool last = restart + 1 == options_.restarts;
      if (!TRY(run_restart(options_.race && restart == 0 && !last, last && options_.extras))) break;
      ++result_.restarts;
      if (!last && options_.enough && options_.enough(result_)) {
        result_.decided_early = true;
        break;
      }
    }
    return std::move(result_);
  }

 private:
  static int64_t problems_needed(const ShapePlan& plan, int64_t rounds, bool extras) {
    const int64_t extra = extras ? plan.sets / 2 + other_cache_windows * plan.sets : 0;
    return first_window_sets + rounds * (plan.sets + plan.warm_up_sets) + extra;
  }

  Result<std::vector<Runner>> start_runners() {
    int64_t input_bytes = 0, output_bytes = 0;
    for (const ShapePlan* plan : result_.shapes) {
      input_bytes = std::max(input_bytes, input_arena_bytes(plan->sizes, plan->sets));
      output_bytes = std::max(output_bytes, output_arena_bytes(plan->sizes, plan->sets));
    }
    std::vector<Runner> runners;
    for (const Arm arm : {Arm::candidate, Arm::incumbent, Arm::baseline}) {
      const std::filesystem::path& library = libraries_[static_cast<size_t>(arm)];
      if (library.empty()) continue;
      runners.push_back({arm, TRY(session_.start(library, input_bytes, output_bytes))});
    }
    return runners;
  }

  // False: the measurement is over.
  Result<bool> run_restart(bool half, bool extras) {
    std::vector<Runner> runners = TRY(start_runners());
    for (std::vector<std::vector<std::vector<double>>>& arm : result_.samples)
      arm.emplace_back(result_.shapes.size());
    std::vector<size_t> order(result_.shapes.size());
    std::iota(order.begin(), order.end(), size_t{0});
    shuffle(order);
    for (Runner& runner : runners) {
      if (!measure_empty(runner, *result_.shapes[order.front()])) return false;
    }
    for (const size_t shape : order) {
      const ShapePlan& plan = *result_.shapes[shape];
      const int64_t rounds = half ? std::max<int64_t>(2, (plan.rounds + 1) / 2) : plan.rounds;
      TRY(banks_[shape].start_over(problems_needed(plan, rounds, extras)));
      if (!TRY(run_shape(runners, shape, rounds))) return false;
      if (extras && !TRY(run_extras(runners.front(), shape))) return false;
    }
    return true;
  }

  // The cost of asking and answering, by windows without a call.
  bool measure_empty(Runner& runner, const ShapePlan& plan) {
    std::vector<double> wall, cpu;
    for (int i = 0; i < empty_windows; ++i) {
      WindowTimes times;
      if (const std::optional<ShapeFailure> failure =
              run_empty(session_, plan, runner.worker, times))
        return note(runner.arm, plan, *failure);
      wall.push_back(static_cast<double>(times.wall_ns));
      cpu.push_back(static_cast<double>(times.cpu_ns));
    }
    runner.empty_wall_ns = median(wall);
    runner.empty_cpu_ns = median(cpu);
    return true;
  }

  // A failure of baseline or incumbent is ours, not the candidate's.
  bool note(Arm arm, const ShapePlan& plan, const ShapeFailure& failure) {
    if (arm == Arm::candidate) {
      result_.failure = failure;
      result_.failed_at = name_in_words(*plan.shape);
    } else {
      result_.ambiguous = fmt::format("the {} failed at shape {}: {}; run marathon task check",
                                      arm == Arm::baseline ? "baseline" : "incumbent",
                                      plan.shape->name, failure.why);
    }
    return false;
  }

  template <class T>
  void shuffle(std::vector<T>& list) {
    for (size_t i = list.size(); i > 1; --i) std::swap(list[i - 1], list[session_.random.below(i)]);
  }

  // Rounds until enough were quiet. Every order of the arms comes before one comes again.
  Result<bool> run_shape(std::vector<Runner>& runners, size_t shape, int64_t rounds) {
    const ShapePlan& plan = *result_.shapes[shape];
    loud_.assign(arm_count, {});
    // The first window of a process meets cold code and unmapped pages: checked, not counted.
    const Window first = TRY(banks_[shape].take(std::min(plan.sets, first_window_sets)));
    for (Runner& runner : runners) {
      Net net;
      if (!run_one(runner, plan, first, decides_, net)) return false;
    }
    std::vector<std::vector<size_t>> orders;
    int64_t quiet = 0;
    for (int64_t round = 0; quiet < rounds && round < attempts_a_round * rounds; ++round) {
      if (orders.empty()) {
        orders = all_orders(runners.size());
        shuffle(orders);
      }
      if (!TRY(run_round(runners, shape, orders.back(), quiet))) return false;
      orders.pop_back();
    }
    return enough_samples(runners, shape);
  }

  Result<bool> run_round(std::vector<Runner>& runners, size_t shape,
                         const std::vector<size_t>& order, int64_t& quiet) {
    const ShapePlan& plan = *result_.shapes[shape];
    const bool warms_up = plan.warm_up_sets > 0 && decides_ == CacheState::warm;
    std::optional<Window> before;
    if (warms_up) before = TRY(banks_[shape].take(plan.warm_up_sets));
    const Window window = TRY(banks_[shape].take(plan.sets));
    bool disturbed = false;
    for (const size_t i : order) {
      Net net;
      // The window's inputs are not yet in the worker's arena while it warms up.
      if (before && !run_one(runners[i], plan, *before, decides_, net)) return false;
      if (!run_one(runners[i], plan, window, decides_, net)) return false;
      count(runners[i].arm, shape, net);
      disturbed = disturbed || net.is_disturbed();
    }
    if (!disturbed) ++quiet;
    return true;
  }

  bool run_one(Runner& runner, const ShapePlan& plan, const Window& window, CacheState cache,
               Net& net) {
    Run run;
    std::optional<ShapeFailure> failure =
        run_window(session_, plan, window, runner.worker, cache, run);
    // The baseline is what it is: its outputs are compared once, in the check.
    if (!failure && runner.arm != Arm::baseline)
      failure = check_window(session_, plan, window, run, runner.worker);
    if (failure) return note(runner.arm, plan, *failure);
    net = net_of(run.times, runner);
    return true;
  }

  void count(Arm arm, size_t shape, const Net& net) {
    const size_t a = static_cast<size_t>(arm);
    ArmCount& counts = result_.counts[a];
    const double call_ns = net.wall_ns / result_.shapes[shape]->sets;
    ++counts.windows;
    counts.overworked += net.is_overworked();
    if (net.is_disturbed()) {
      ++counts.disturbed;
      loud_[a].push_back(call_ns);
      return;
    }
    result_.disagreement.push_back(std::abs(net.wall_ns - net.cpu_ns) / net.wall_ns);
    result_.samples[a].back()[shape].push_back(call_ns);
  }

  bool has_enough(Arm arm, size_t shape) const {
    return result_.samples[static_cast<size_t>(arm)].back()[shape].size() >= 2;
  }

  bool enough_samples(const std::vector<Runner>& runners, size_t shape) {
    const bool others = std::all_of(runners.begin(), runners.end(), [&](const Runner& runner) {
      return runner.arm == Arm::candidate || has_enough(runner.arm, shape);
    });
    if (others && has_enough(Arm::candidate, shape)) return true;
    const size_t candidate = static_cast<size_t>(Arm::candidate);
    const size_t baseline = static_cast<size_t>(Arm::baseline);
    // Nothing disturbs the others: the candidate itself gives up its core, and has to pay for it.
    if (others && loud_[baseline].size() * 2 < result_.samples[baseline].back()[shape].size()) {
      result_.samples[candidate].back()[shape] = loud_[candidate];
      result_.sleeps = true;
      return true;
    }
    result_.ambiguous = fmt::format(
        "other work disturbed {} of {} windows (shape {}): measure on a quieter machine, or keep "
        "core {} free",
        result_.discarded(), result_.windows(), result_.shapes[shape]->shape->name, session_.core);
    return false;
  }

  // Half of the calls must take half of the time. One window is enough to say that they do; before
  // anything else is said, more pairs decide.
  Result<bool> run_slope(Runner& runner, size_t shape) {
    const ShapePlan& plan = *result_.shapes[shape];
    const int32_t half = plan.sets / 2;
    Net net;
    if (!run_one(runner, plan, TRY(banks_[shape].take(half)), decides_, net)) return false;
    const double whole = median(result_.samples[static_cast<size_t>(runner.arm)].back()[shape]);
    double slope = net.wall_ns / half / whole;
    if (is_flat(slope)) {
      std::vector<double> pairs;
      for (int i = 0; i < slope_pairs; ++i) {
        Net all;
        if (!run_one(runner, plan, TRY(banks_[shape].take(half)), decides_, net)) return false;
        if (!run_one(runner, plan, TRY(banks_[shape].take(plan.sets)), decides_, all)) return false;
        pairs.push_back(net.wall_ns / half / (all.wall_ns / plan.sets));
      }
      slope = median(pairs);
    }
    result_.slope.push_back(slope);
    return true;
  }

  // The slope, and the figure of the other cache state.
  Result<bool> run_extras(Runner& runner, size_t shape) {
    const ShapePlan& plan = *result_.shapes[shape];
    if (plan.sets >= 4 && !TRY(run_slope(runner, shape))) return false;
    Net net;
    const CacheState other = decides_ == CacheState::warm ? CacheState::cold : CacheState::warm;
    for (int i = 0; i < other_cache_windows; ++i) {
      const Window window = TRY(banks_[shape].take(plan.sets));
      if (!run_one(runner, plan, window, other, net)) return false;
      result_.other_cache_ns[shape].push_back(net.wall_ns / plan.sets);
    }
    return true;
  }

  Session& session_;
  const std::vector<std::filesystem::path>& libraries_;
  const MeasureOptions& options_;
  CacheState decides_ = CacheState::warm;
  std::vector<ProblemBank> banks_;
  std::vector<std::vector<double>> loud_;  // by arm: this shape's disturbed windows
  Measurement result_;
};

}  // namespace

std::string name_in_words(const Shape& shape) {
  return shape.set == ShapeSet::hidden ? "a hidden shape" : "shape " + shape.name;
}

bool is_flat(double slope) { return slope > 1.6; }

int64_t Measurement::windows() const {
  int64_t all = 0;
  for (const ArmCount& count : counts) all += count.windows;
  return all;
}

int64_t Measurement::discarded() const {
  int64_t all = 0;
  for (const ArmCount& count : counts) all += count.disturbed;
  return all;
}

std::vector<double> Measurement::all_samples(Arm arm, size_t shape) const {
  std::vector<double> all;
  for (const std::vector<std::vector<double>>& restart : samples[static_cast<size_t>(arm)]) {
    all.insert(all.end(), restart[shape].begin(), restart[shape].end());
  }
  return all;
}

Interval Measurement::ratio(Arm numerator, Arm denominator, Random& random, int shape) const {
  std::vector<std::vector<PairedSamples>> pairs;
  std::vector<double> weights;
  for (size_t s = 0; s < shapes.size(); ++s) {
    if (shape < 0 || s == static_cast<size_t>(shape)) weights.push_back(shapes[s]->shape->weight);
  }
  for (size_t restart = 0; restart < static_cast<size_t>(restarts); ++restart) {
    pairs.emplace_back();
    for (size_t s = 0; s < shapes.size(); ++s) {
      if (shape >= 0 && s != static_cast<size_t>(shape)) continue;
      pairs.back().push_back(
          {without_outliers(samples[static_cast<size_t>(numerator)][restart][s]),
           without_outliers(samples[static_cast<size_t>(denominator)][restart][s])});
    }
  }
  return bootstrap_ratio(pairs, weights, random);
}

Result<Measurement> measure(Session& session, const std::vector<std::filesystem::path>& libraries,
                            const MeasureOptions& options) {
  return Measurer(session, libraries, options).run();
}

}  // namespace marathon
