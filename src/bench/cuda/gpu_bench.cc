#include "bench/cuda/gpu_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/clock.h"
#include "bench/core_lock.h"
#include "bench/cuda/gpu_plan.h"
#include "bench/cuda/gpu_watch.h"

namespace marathon {

namespace fs = std::filesystem;

namespace {

constexpr double gpu_wait_s = 3600;
constexpr int64_t draws = 2;           // independent inputs a shape in the check
constexpr int64_t discarded_replays = 20;
// Of hidden shapes that are timed: enough to tell 85 % from 100 %.
constexpr int64_t hidden_rounds = 2, hidden_sets = 2, hidden_discarded = 5;
constexpr double foreign_gap_ns = 150'000;  // a time slice of somebody else is longer
constexpr int64_t probes = 3;
constexpr double beyond_the_chip = 1.05;
// The judge's clock over a batch against the events: what a launch may cost beside the kernel.
constexpr double slope_slack_ns = 4000, slope_share = 1.3, batch_aim_ns = 60e6;
constexpr double dense_flops_a_cycle = 4096;  // bf16, of one multiprocessor of Hopper
constexpr double hbm_gbytes_s = 4800;         // the vendor's figure for an H200

// Fresh inputs of all rounds of one shape with what must come out, used once in each restart.
struct Bank {
  std::vector<std::vector<GpuSolved>> rounds;  // [round][set]
};

class GpuBench : public Bench {
 public:
  GpuBench(const BenchRequest& request, const Task& task, TempFolder folder)
      : request_(request), task_(task), folder_(std::move(folder)) {}

  Status open() {
    session_ = TRY(GpuSession::make(request_, task_));
    watch_.emplace(session_->gpu().uuid);
    lock_ = TRY(lock_core(gpu_lock_base + static_cast<int>(request_.gpu), gpu_wait_s));
    return {};
  }

  Result<Prepared> prepare() override {
    std::vector<GpuImplementation> implementations(arm_count);
    implementations[at(Arm::candidate)] = {request_.candidate, request_.candidate_cubins};
    if (!request_.incumbent.empty())
      implementations[at(Arm::incumbent)] = {request_.incumbent, request_.incumbent_cubins};
    GpuImplementation& baseline = implementations[at(Arm::baseline)];
    baseline = {request_.baseline, request_.baseline_cubins};
    baseline.is_trusted = baseline.is_python();
    planned_ = TRY(plan_all(*session_, implementations, folder_.path()));
    return Prepared{planned_.failure, planned_.failed_shape, planned_.failed_set,
                    planned_.ambiguous};
  }

  Result<CheckResult> check() override;
  Result<Measurement> measure(const MeasureOptions& options) override {
    return measure_arms({Arm::candidate, Arm::incumbent, Arm::baseline}, options);
  }
  Result<Measurement> measure_noise(const MeasureOptions& options) override {
    return measure_arms({Arm::baseline, Arm::baseline, Arm::baseline}, options);
  }
  Result<FloorTimes> floor(const ShapePlan& plan) override;
  Random& random() override { return session_->random(); }
  void describe(Provenance& provenance) const override {
    provenance.sandbox = planned_.arms.empty() ? "" : planned_.arms[0].sandbox;
    if (watch_) provenance.gpu = watch_->evidence(session_->gpu().name);
  }

 private:
  static size_t at(Arm arm) { return static_cast<size_t>(arm); }

  const GpuPlans& plans_of(Arm arm) const { return planned_.arms[at(arm)]; }

  // One replayer a part of a measurement. `source`: whose plans it replays.
  struct Runner {
    Arm arm, source;
    std::shared_ptr<GpuProcess> process;
  };

  Result<Runner> begin(Arm arm, Arm source) {
    return Runner{arm, source, TRY(begin_start(*session_, plans_of(source), folder_.path()))};
  }
  std::optional<ShapeFailure> finish(const Runner& runner) {
    const std::optional<WorkerFailure> failed =
        finish_start(plans_of(runner.source), *runner.process);
    if (!failed) return std::nullopt;
    return ShapeFailure{failed->kind, failed->why};
  }

  double limit_s() const { return task_.measure.timeout_s + 5; }

  // How a shape is measured in one restart.
  struct Pace {
    int64_t rounds, sets, discard;
  };
  static Pace pace_of(const GpuShape& shape, bool half) {
    const int64_t rounds = shape.plan.rounds;
    if (shape.plan.shape->set == ShapeSet::hidden)
      return {hidden_rounds, std::min<int64_t>(hidden_sets, shape.plan.sets), hidden_discarded};
    return {half ? std::max<int64_t>(2, (rounds + 1) / 2) : rounds, shape.plan.sets,
            discarded_replays};
  }
  bool is_measured(const GpuShape& shape, bool hidden) const {
    if (hidden) return shape.plan.shape->timed;
    return shape.plan.shape->set == ShapeSet::listed && is_looked_at(*session_, shape);
  }

  // Replays the sets once each and looks at every output. `times` in ns, by set.
  Result<std::optional<ShapeFailure>> run_window(Runner& runner, GpuShape& shape,
                                                 const std::vector<GpuSolved>& problems,
                                                 const char* cache, int64_t discard,
                                                 std::vector<double>& times, bool compare);
  Result<std::optional<ShapeFailure>> look(GpuShape& shape, const GpuSolved& solved, uint64_t seed,
                                           uint64_t inputs_before, bool compare);
  Status check_shape(Runner& runner, std::optional<Runner>& baseline, GpuShape& shape,
                     CheckResult& all);
  Status set_bounds(GpuShape& shape, const std::vector<GpuSolved>& problems, ShapeResult& result);
  Status fill_errors(GpuShape& shape, const std::vector<GpuSolved>& problems, ShapeResult& result,
                     bool of_baseline);

  Result<Measurement> measure_arms(const std::vector<Arm>& sources, const MeasureOptions& options);
  Result<std::vector<std::vector<Runner>>> start_all(const std::vector<Arm>& sources,
                                                     const MeasureOptions& options, Measurement& m);
  Result<bool> run_restart(std::vector<Runner>& runners, Measurement& m, bool half, bool last);
  Result<bool> run_shape(std::vector<Runner>& runners, Measurement& m, size_t place,
                         const Pace& pace);
  Result<bool> run_slope(Runner& runner, GpuShape& shape, double event_ns, Measurement& m);
  Result<const Bank*> bank_of(GpuShape& shape, int64_t rounds, int64_t sets);
  Result<bool> is_alone();
  bool note(Measurement& m, Arm arm, const GpuShape& shape, const ShapeFailure& failure);

  const BenchRequest& request_;
  const Task& task_;
  TempFolder folder_;
  Fd lock_;
  std::unique_ptr<GpuSession> session_;
  std::optional<GpuWatch> watch_;
  Planned planned_;
  std::map<size_t, Bank> banks_;
  std::map<size_t, double> call_ns_;  // by shape, from the check
};

Result<std::optional<ShapeFailure>> GpuBench::look(GpuShape& shape, const GpuSolved& solved,
                                                   uint64_t seed, uint64_t inputs_before,
                                                   bool compare) {
  const bool told = shape.plan.shape->set != ShapeSet::hidden;
  if (TRY(session_->digest_inputs(shape, solved.set)) != inputs_before)
    return std::optional(ShapeFailure{VerdictKind::suspicious, "an input was written to"});
  if (const std::string broken = TRY(session_->broken_canary(shape, solved.set, seed));
      !broken.empty())
    return std::optional(ShapeFailure{VerdictKind::wrong, broken});
  if (!compare) return std::optional<ShapeFailure>();
  for (size_t t = 0; t < task_.tensors.size(); ++t) {
    if (task_.tensors[t].role != Role::output) continue;
    const ErrorFigures figures = TRY(session_->errors(shape, solved, t, false));
    const std::string broken =
        broken_bound(figures, shape.plan.bounds[t], task_.tensors[t], shape.compact[t],
                     told ? Places::told : Places::untold);
    if (!broken.empty()) return std::optional(ShapeFailure{VerdictKind::wrong, broken});
  }
  return std::optional<ShapeFailure>();
}

Result<std::optional<ShapeFailure>> GpuBench::run_window(Runner& runner, GpuShape& shape,
                                                         const std::vector<GpuSolved>& problems,
                                                         const char* cache, int64_t discard,
                                                         std::vector<double>& times,
                                                         bool compare) {
  std::vector<int64_t> sets;
  std::vector<uint64_t> digests;
  for (const GpuSolved& solved : problems) {
    TRY(session_->fill(shape, solved.set, solved.seed));
    digests.push_back(TRY(session_->digest_inputs(shape, solved.set)));
    sets.push_back(solved.set);
  }
  // Whole and positive, so that it travels as a JSON number.
  const uint64_t seed = session_->random().next() >> 2;
  const GpuProcess::Answer answer = runner.process->ask({{"do", "run"},
                                                        {"shape", shape.index},
                                                        {"sets", sets},
                                                        {"cache", cache},
                                                        {"discard", discard},
                                                        {"seed", static_cast<int64_t>(seed)}},
                                                       limit_s());
  if (answer.failure)
    return std::optional(ShapeFailure{answer.failure->kind, answer.failure->why});
  times.clear();
  for (const Json& ns : answer.body->value("ns", Json::array()))
    times.push_back(ns.is_number() ? ns.get<double>() : 0);
  for (size_t i = 0; i < problems.size(); ++i) {
    const std::optional<ShapeFailure> failure =
        TRY(look(shape, problems[i], seed, digests[i], compare));
    if (failure) return failure;
  }
  return std::optional<ShapeFailure>();
}

// ---- check

Status GpuBench::set_bounds(GpuShape& shape, const std::vector<GpuSolved>& problems,
                            ShapeResult& result) {
  for (size_t t = 0; t < task_.tensors.size(); ++t) {
    if (task_.tensors[t].role != Role::output) continue;
    OutputError error;
    error.output = task_.tensors[t].name;
    for (const GpuSolved& solved : problems) {
      const ErrorFigures honest = TRY(session_->errors(shape, solved, t, true));
      shape.plan.bounds[t] =
          wider(shape.plan.bounds[t], TRY(session_->bound_for(shape, t, honest)));
      error.emulation = std::max(error.emulation, honest.block);
    }
    error.bound = shape.plan.bounds[t].block;
    result.outputs.push_back(std::move(error));
  }
  return {};
}

Status GpuBench::fill_errors(GpuShape& shape, const std::vector<GpuSolved>& problems,
                             ShapeResult& result, bool of_baseline) {
  size_t output = 0;
  for (size_t t = 0; t < task_.tensors.size(); ++t) {
    if (task_.tensors[t].role != Role::output) continue;
    OutputError& error = result.outputs[output++];
    for (const GpuSolved& solved : problems) {
      const ErrorFigures figures = TRY(session_->errors(shape, solved, t, false));
      if (of_baseline) {
        result.baseline_error = std::max(result.baseline_error, figures.block);
        continue;
      }
      error.worst_element = std::max(error.worst_element, figures.element);
      result.error = std::max(result.error, figures.block);
      if (figures.block < error.relative_rms) continue;
      error.relative_rms = figures.block;
      error.where = place_in_words(task_.tensors[t], shape.compact[t], figures.worst_block,
                                   figures.worst_block_end);
    }
  }
  return {};
}

Status GpuBench::check_shape(Runner& runner, std::optional<Runner>& baseline, GpuShape& shape,
                             CheckResult& all) {
  ShapeResult result;
  result.name = shape.plan.shape->name;
  result.set = std::string(to_string(shape.plan.shape->set));
  std::vector<GpuSolved> problems;
  for (int64_t set = 0; set < std::min<int64_t>(draws, shape.plan.sets); ++set)
    problems.push_back(TRY(session_->solve(shape, set, session_->random().next(), true)));
  TRY(set_bounds(shape, problems, result));
  std::vector<double> times;
  std::optional<ShapeFailure> failure;
  if (const std::optional<WorkerFailure> failed =
          add_shape(*session_, plans_of(runner.source), shape, *runner.process))
    failure = ShapeFailure{failed->kind, failed->why};
  if (!failure)
    failure = TRY(run_window(runner, shape, problems, "as_it_is", 0, times, true));
  if (!failure) {
    TRY(fill_errors(shape, problems, result, false));
    // The same inputs again, on other poison: other bits mean a race or memory that nobody wrote.
    const uint64_t before = TRY(session_->digest_outputs(shape, problems[0].set));
    failure = TRY(run_window(runner, shape, problems, "as_it_is", 2, times, true));
    if (!failure && TRY(session_->digest_outputs(shape, problems[0].set)) != before)
      all.not_repeatable = shape.plan.shape->name;
    if (!times.empty()) call_ns_[shape.index] = *std::min_element(times.begin(), times.end());
  }
  if (failure) {
    result.verdict = failure->kind;
    result.reason = failure->why;
    all.failure = std::move(failure);
    all.failed_shape = result.name;
    all.failed_set = result.set;
  } else if (baseline && shape.plan.shape->set == ShapeSet::listed) {
    std::optional<ShapeFailure> trouble;
    if (const std::optional<WorkerFailure> failed =
            add_shape(*session_, plans_of(Arm::baseline), shape, *baseline->process))
      trouble = ShapeFailure{failed->kind, failed->why};
    if (!trouble) trouble = TRY(run_window(*baseline, shape, problems, "as_it_is", 0, times, false));
    if (!trouble) TRY(fill_errors(shape, problems, result, true));
    if (trouble) all.baseline_trouble = "shape " + result.name + ": " + trouble->why;
    (void)baseline->process->ask({{"do", "forget"}, {"shape", shape.index}}, limit_s());
  }
  (void)runner.process->ask({{"do", "forget"}, {"shape", shape.index}}, limit_s());
  session_->forget_solved();
  all.shapes.push_back(std::move(result));
  return {};
}

Result<CheckResult> GpuBench::check() {
  CheckResult all;
  Runner runner = TRY(begin(Arm::candidate, Arm::candidate));
  std::optional<Runner> baseline;
  if (request_.baseline != request_.candidate)
    baseline.emplace(TRY(begin(Arm::baseline, Arm::baseline)));
  all.failure = finish(runner);
  if (all.failure) return all;
  if (baseline) {
    if (const std::optional<ShapeFailure> failure = finish(*baseline)) {
      all.baseline_trouble = failure->why;
      baseline.reset();
    }
  }
  for (GpuShape& shape : session_->shapes()) {
    if (!is_looked_at(*session_, shape)) continue;
    TRY(check_shape(runner, baseline, shape, all));
    if (all.failure) break;
  }
  return all;
}

// ---- measure

bool GpuBench::note(Measurement& m, Arm arm, const GpuShape& shape, const ShapeFailure& failure) {
  if (arm == Arm::candidate) {
    m.failure = failure;
    m.failed_at = name_in_words(*shape.plan.shape);
  } else {
    m.ambiguous = fmt::format("the {} failed at {}: {}; run marathon task check",
                              arm == Arm::baseline ? "baseline" : "incumbent",
                              name_in_words(*shape.plan.shape), failure.why);
  }
  return false;
}

Result<bool> GpuBench::is_alone() {
  for (int64_t i = 0; i < probes; ++i) {
    if (TRY(session_->idle_probe()) < foreign_gap_ns) return true;
  }
  return false;
}

Result<const Bank*> GpuBench::bank_of(GpuShape& shape, int64_t rounds, int64_t sets) {
  Bank& bank = banks_[shape.index];
  while (static_cast<int64_t>(bank.rounds.size()) < rounds) {
    bank.rounds.emplace_back();
    for (int64_t set = 0; set < sets; ++set) {
      bank.rounds.back().push_back(
          TRY(session_->solve(shape, set, session_->random().next(), false)));
    }
  }
  return &bank;
}

// The processes of all restarts at once: opening a GPU takes most of a second, and who waits for its
// turn has nothing on the GPU.
Result<std::vector<std::vector<GpuBench::Runner>>> GpuBench::start_all(
    const std::vector<Arm>& sources, const MeasureOptions& options, Measurement& m) {
  std::vector<std::vector<Runner>> all(static_cast<size_t>(options.restarts));
  for (std::vector<Runner>& runners : all) {
    for (const Arm arm : {Arm::candidate, Arm::incumbent, Arm::baseline}) {
      if (options.hidden && arm == Arm::incumbent) continue;
      const Arm source = sources[at(arm)];
      if (!plans_of(source).implementation.empty()) runners.push_back(TRY(begin(arm, source)));
    }
  }
  for (const std::vector<Runner>& runners : all) {
    for (const Runner& runner : runners) {
      const std::optional<ShapeFailure> failure = finish(runner);
      if (failure) note(m, runner.arm, session_->shapes().front(), *failure);
      if (failure) return all;
    }
  }
  return all;
}

Result<Measurement> GpuBench::measure_arms(const std::vector<Arm>& sources,
                                           const MeasureOptions& options) {
  Measurement m;
  m.samples.resize(arm_count);
  // A second measurement of the same candidate gets other inputs.
  banks_.clear();
  session_->forget_solved();
  for (const GpuShape& shape : session_->shapes()) {
    if (is_measured(shape, options.hidden)) m.shapes.push_back(&shape.plan);
  }
  m.other_cache_ns.resize(m.shapes.size());
  std::vector<std::vector<Runner>> restarts = TRY(start_all(sources, options, m));
  if (m.failure || !m.ambiguous.empty()) return m;
  for (int64_t restart = 0; restart < options.restarts; ++restart) {
    const bool last = restart + 1 == options.restarts;
    std::vector<Runner> runners = std::move(restarts[static_cast<size_t>(restart)]);
    if (!TRY(is_alone())) {
      m.ambiguous = "another program uses this GPU (nvidia-smi shows it): measure when it is idle";
      return m;
    }
    for (auto& arm : m.samples) arm.emplace_back(m.shapes.size());
    if (!TRY(run_restart(runners, m, options.race && restart == 0 && !last,
                         last && options.extras)))
      return m;
    ++m.restarts;
    if (!last && options.enough && options.enough(m)) {
      m.decided_early = true;
      break;
    }
  }
  return m;
}

Result<bool> GpuBench::run_restart(std::vector<Runner>& runners, Measurement& m, bool half,
                                   bool last) {
  std::vector<size_t> order(m.shapes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  for (size_t i = order.size(); i > 1; --i)
    std::swap(order[i - 1], order[session_->random().below(i)]);
  for (const size_t place : order) {
    GpuShape& shape = *std::find_if(
        session_->shapes().begin(), session_->shapes().end(),
        [&](const GpuShape& other) { return &other.plan == m.shapes[place]; });
    for (Runner& runner : runners) {
      if (const std::optional<WorkerFailure> failed =
              add_shape(*session_, plans_of(runner.source), shape, *runner.process))
        return note(m, runner.arm, shape, {failed->kind, failed->why});
    }
    if (!TRY(run_shape(runners, m, place, pace_of(shape, half)))) return false;
    watch_->look();
    if (last) {
      const double event_ns = median(m.samples[at(Arm::candidate)].back()[place]);
      if (!TRY(run_slope(runners.front(), shape, event_ns, m))) return false;
      std::vector<double> times;
      const Bank* bank = TRY(bank_of(shape, 1, shape.plan.sets));
      const bool warm = task_.measure.cache == CacheState::warm;
      const std::optional<ShapeFailure> failure =
          TRY(run_window(runners.front(), shape, bank->rounds[0], warm ? "cold" : "warm", 4, times,
                         true));
      if (failure) return note(m, Arm::candidate, shape, *failure);
      m.other_cache_ns[place] = times;
    }
    for (Runner& runner : runners)
      (void)runner.process->ask({{"do", "forget"}, {"shape", shape.index}}, limit_s());
    if (shape.plan.shape->set != ShapeSet::hidden) continue;
    // Looked at once, and there are many: their answers need not stay in memory together.
    banks_.erase(shape.index);
    session_->forget_solved();
  }
  return true;
}

// Every order of the arms comes before one comes again.
Result<bool> GpuBench::run_shape(std::vector<Runner>& runners, Measurement& m, size_t place,
                                 const Pace& pace) {
  GpuShape& shape = *std::find_if(
      session_->shapes().begin(), session_->shapes().end(),
      [&](const GpuShape& other) { return &other.plan == m.shapes[place]; });
  std::vector<size_t> order(runners.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::vector<std::vector<size_t>> orders;
  const Bank* bank = TRY(bank_of(shape, pace.rounds, pace.sets));
  const char* cache = task_.measure.cache == CacheState::warm ? "warm" : "cold";
  for (int64_t round = 0; round < pace.rounds; ++round) {
    if (orders.empty()) {
      do {
        orders.push_back(order);
      } while (std::next_permutation(order.begin(), order.end()));
      for (size_t i = orders.size(); i > 1; --i)
        std::swap(orders[i - 1], orders[session_->random().below(i)]);
    }
    for (const size_t i : orders.back()) {
      std::vector<double> times;
      Runner& runner = runners[i];
      // The baseline is what it is: its outputs are compared once, in the check.
      const std::optional<ShapeFailure> failure =
          TRY(run_window(runner, shape, bank->rounds[static_cast<size_t>(round)], cache,
                         pace.discard, times, runner.arm != Arm::baseline));
      if (failure) return note(m, runner.arm, shape, *failure);
      std::vector<double>& samples = m.samples[at(runner.arm)].back()[place];
      samples.insert(samples.end(), times.begin(), times.end());
      m.counts[at(runner.arm)].windows += 1;
    }
    orders.pop_back();
  }
  return true;
}

// The judge's own clock, which knows nothing of events: (2 N calls - N calls) with flushes, less
// (2 N flushes - N flushes).
Result<bool> GpuBench::run_slope(Runner& runner, GpuShape& shape, double event_ns,
                                 Measurement& m) {
  const auto wall = [&](int64_t count, bool kernel) -> Result<double> {
    const int64_t start_ns = monotonic_ns();
    const GpuProcess::Answer answer = runner.process->ask(
        {{"do", "batch"}, {"shape", shape.index}, {"count", count}, {"kernel", kernel}},
        limit_s() + 1e-9 * event_ns * static_cast<double>(count) * 2);
    if (answer.failure) return fail(Fault::invalid, answer.failure->why);
    return static_cast<double>(monotonic_ns() - start_ns);
  };
  const int64_t count =
      std::clamp<int64_t>(static_cast<int64_t>(batch_aim_ns / std::max(event_ns, 1.0)), 4, 1000);
  std::vector<double> slopes;
  for (int i = 0; i < 3; ++i) {
    const Result<double> once = wall(count, true), twice = wall(2 * count, true),
                         flush_once = wall(count, false), flush_twice = wall(2 * count, false);
    for (const Result<double>* time : {&once, &twice, &flush_once, &flush_twice}) {
      if (!*time) return note(m, Arm::candidate, shape, {VerdictKind::crashed, time->error().what});
    }
    slopes.push_back(((*twice - *once) - (*flush_twice - *flush_once)) /
                     static_cast<double>(count));
  }
  const double slope_ns = median(slopes);
  m.disagreement.push_back(std::abs(slope_ns - event_ns) / event_ns);
  if (slope_ns <= slope_share * event_ns + slope_slack_ns) return true;
  return note(m, Arm::candidate, shape,
              {VerdictKind::suspicious,
               fmt::format("two clocks disagree: a call takes {:.2f} µs of the judge's clock in a "
                           "batch, and {:.2f} µs by the events",
                           1e-3 * slope_ns, 1e-3 * event_ns)});
}

Result<FloorTimes> GpuBench::floor(const ShapePlan& plan) {
  const Expression::Lookup lookup = [&](std::string_view name) -> std::optional<int64_t> {
    const auto found = plan.shape->dims.find(std::string(name));
    return found == plan.shape->dims.end() ? std::nullopt : std::optional<int64_t>(found->second);
  };
  const Gpu& gpu = session_->gpu();
  double flops = 0, bytes = 0, inputs = 0, outputs = 0;
  if (task_.floor.flops) flops = static_cast<double>(TRY(task_.floor.flops->evaluate(lookup)));
  for (size_t t = 0; t < plan.sizes.tensor_bytes.size(); ++t)
    (plan.sizes.is_output[t] ? outputs : inputs) += static_cast<double>(plan.sizes.tensor_bytes[t]);
  bytes = inputs + std::max(0.0, outputs - static_cast<double>(gpu.l2_bytes));
  if (task_.floor.bytes) bytes = static_cast<double>(TRY(task_.floor.bytes->evaluate(lookup)));
  FloorTimes times;
  const double peak_gflops = dense_flops_a_cycle * static_cast<double>(gpu.multiprocessors) * 1e-6 *
                             static_cast<double>(gpu.max_clock_khz);
  const bool cold = task_.measure.cache == CacheState::cold;
  times.impossible_us =
      std::max(flops / peak_gflops, cold ? bytes / hbm_gbytes_s : 0.0) * 1e-3 / beyond_the_chip;
  if (request_.peaks.gflops <= 0 || request_.peaks.memory_gbytes_s <= 0) return times;
  const double arithmetic_us = flops / request_.peaks.gflops * 1e-3;
  const double memory_us = bytes / request_.peaks.memory_gbytes_s * 1e-3;
  times.floor_us = std::max(arithmetic_us, memory_us);
  times.by_memory = memory_us > arithmetic_us;
  return times;
}

}  // namespace

Result<std::unique_ptr<Bench>> make_gpu_bench(const BenchRequest& request, const Task& task) {
  TempFolder folder = TRY(TempFolder::make("marathon-gpu"));
  std::unique_ptr<GpuBench> bench =
      std::make_unique<GpuBench>(request, task, std::move(folder));
  TRY(bench->open());
  return std::unique_ptr<Bench>(std::move(bench));
}

}  // namespace marathon
