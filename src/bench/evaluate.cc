#include "bench/evaluate.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <cmath>

#include "base/clock.h"
#include "bench/bench.h"
#include "bench/cuda/gpu_bench.h"
#include "bench/decide.h"

namespace marathon {

namespace {

// How far below certain a loss must be after one restart, and after more: one process says nothing
// about the spread between processes.
constexpr double race_margin_first = 0.03, race_margin = 0.01;
constexpr int hidden_looks = 2;

double seconds_since(int64_t start_ns) {
  return 1e-9 * static_cast<double>(monotonic_ns() - start_ns);
}

// "shape N: why", or why alone where it was at no shape.
std::string at_shape(const std::string& set, const std::string& name, const std::string& why) {
  if (name.empty()) return why;
  return (set == "hidden" ? "a hidden shape" : "shape " + name) + ": " + why;
}

Verdict failed(VerdictKind kind, std::string reason) {
  Verdict verdict;
  verdict.kind = kind;
  verdict.reasons.push_back(std::move(reason));
  return verdict;
}

class Evaluation {
 public:
  Evaluation(const BenchRequest& request, const Task& task, Bench& bench)
      : request_(request),
        task_(task),
        bench_(bench),
        noise_(std::max(request.noise, least_noise)) {}

  Result<Verdict> run() {
    started_at_us_ = wall_time_us();
    const int64_t start_ns = monotonic_ns();
    Verdict verdict = TRY(check());
    if (is_measured(verdict.kind)) TRY(measure_and_decide(verdict));
    return with_provenance(std::move(verdict), start_ns);
  }

 private:
  Result<Verdict> check() {
    const int64_t start_ns = monotonic_ns();
    const Bench::Prepared prepared = TRY(bench_.prepare());
    if (prepared.failure) {
      return failed(prepared.failure->kind,
                    at_shape(prepared.failed_set, prepared.failed_shape, prepared.failure->why));
    }
    if (!prepared.ambiguous.empty()) return failed(VerdictKind::ambiguous, prepared.ambiguous);
    CheckResult checked = TRY(bench_.check());
    Verdict verdict;
    verdict.kind = VerdictKind::same;
    if (checked.failure) {
      verdict = failed(checked.failure->kind,
                       at_shape(checked.failed_set, checked.failed_shape, checked.failure->why));
    }
    if (!checked.not_repeatable.empty()) {
      notes_.push_back("the same inputs gave other bits the second time (" +
                       checked.not_repeatable + "): a race, or memory that nobody wrote");
    }
    if (!checked.baseline_trouble.empty())
      notes_.push_back("the baseline itself is not right at " + checked.baseline_trouble);
    verdict.shapes = std::move(checked.shapes);
    check_s_ = seconds_since(start_ns);
    print_stage("check",
                checked.failure ? verdict.reasons.front()
                                : fmt::format("{} shapes right", verdict.shapes.size()),
                check_s_);
    return verdict;
  }

  Arm rival() const { return request_.incumbent.empty() ? Arm::baseline : Arm::incumbent; }

  bool loss_is_certain(const Measurement& measurement) {
    if (measurement.restarts > 2) return false;
    const double margin = measurement.restarts == 1 ? race_margin_first : race_margin;
    return measurement.ratio(rival(), Arm::candidate, bench_.random()).high < 1 - noise_ - margin;
  }

  MeasureOptions plan() {
    MeasureOptions options;
    options.restarts =
        request_.quick ? std::min<int64_t>(2, task_.measure.restarts) : task_.measure.restarts;
    options.race = request_.race && !request_.incumbent.empty();
    if (options.race) options.enough = [this](const Measurement& m) { return loss_is_certain(m); };
    return options;
  }

  Status measure_and_decide(Verdict& verdict) {
    const int64_t start_ns = monotonic_ns();
    const Measurement first = TRY(bench_.measure(plan()));
    TRY(decide(first, verdict));
    if (verdict.kind == VerdictKind::faster && request_.quick) {
      verdict.reasons.push_back("a quick look never promotes: judge it in full");
    } else if (verdict.kind == VerdictKind::faster || is_a_close_loss(verdict)) {
      print_stage("measure",
                  fmt::format("{} at first, gain {:.3f}: measuring again, fresh",
                              to_string(verdict.kind), verdict.gain.value),
                  seconds_since(start_ns));
      if (verdict.kind == VerdictKind::faster) TRY(look_at_hidden(verdict));
      if (is_measured(verdict.kind)) TRY(confirm(verdict));
    }
    measure_s_ = seconds_since(start_ns);
    print_stage("measure",
                fmt::format("{} {:.3f}×, gain {:.3f}", to_string(verdict.kind),
                            verdict.speedup.value, verdict.gain.value),
                measure_s_);
    return {};
  }

  // What is fast must be so where nobody told it to be, too. Nobody is accused after one look.
  Status look_at_hidden(Verdict& verdict) {
    if (std::none_of(task_.shapes.begin(), task_.shapes.end(),
                     [](const Shape& shape) { return shape.timed; }))
      return {};
    MeasureOptions options;
    options.restarts = 1;
    options.extras = false;
    options.hidden = true;
    std::string words;
    for (int look = 0; look < hidden_looks; ++look) {
      const Measurement m = TRY(bench_.measure(options));
      windows_ += m.windows();
      const Judgement judgement = judge_failures(m);
      if (judgement.kind) return refuse(verdict, *judgement.kind, judgement.reason);
      if (const std::string impossible = TRY(fill_shapes(m, verdict)); !impossible.empty())
        return refuse(verdict, VerdictKind::suspicious, impossible);
      const double hidden = m.ratio(Arm::baseline, Arm::candidate, bench_.random()).value;
      words = kept_in_words(hidden, verdict.speedup.value);
      if (!keeps_its_speed(hidden, verdict.speedup.value)) continue;
      notes_.push_back(words);
      return {};
    }
    return refuse(verdict, VerdictKind::rule_broken, words);
  }

  static Status refuse(Verdict& verdict, VerdictKind kind, const std::string& reason) {
    verdict.kind = kind;
    verdict.reasons.insert(verdict.reasons.begin(), reason);
    return {};
  }

  // Near the noise a loss may be chance as well as a gain; a clear one is not measured twice.
  bool is_a_close_loss(const Verdict& verdict) const {
    return verdict.kind == VerdictKind::slower && !request_.quick && !verdict.decided_early &&
           verdict.gain.high > 1 - noise_ - race_margin;
  }

  // The winner's curse: what won is measured again, with other inputs in other processes.
  Status confirm(Verdict& verdict) {
    MeasureOptions options = plan();
    options.race = false;
    options.enough = nullptr;
    const Measurement second = TRY(bench_.measure(options));
    Verdict again;
    again.shapes = verdict.shapes;
    TRY(decide(second, again));
    if (again.kind == verdict.kind) {
      again.confirmed = true;
    } else if (is_measured(again.kind)) {
      again.reasons.insert(
          again.reasons.begin(),
          fmt::format("{} at first (gain {:.3f}), not confirmed by a fresh measurement ({:.3f})",
                      to_string(verdict.kind), verdict.gain.value, again.gain.value));
      again.kind = VerdictKind::same;
    }
    verdict = std::move(again);
    return {};
  }

  Status decide(const Measurement& m, Verdict& verdict) {
    windows_ += m.windows();
    discarded_ += m.discarded();
    restarts_ += m.restarts;
    disagreement_.insert(disagreement_.end(), m.disagreement.begin(), m.disagreement.end());
    verdict.decided_early = m.decided_early;
    verdict.reasons = notes_;
    const Judgement judgement = judge_failures(m);
    if (judgement.kind) {
      verdict.kind = *judgement.kind;
      verdict.reasons.insert(verdict.reasons.begin(), judgement.reason);
      if (m.failure || !m.ambiguous.empty()) return {};
    }
    verdict.speedup = m.ratio(Arm::baseline, Arm::candidate, bench_.random());
    verdict.gain = m.ratio(rival(), Arm::candidate, bench_.random());
    const std::string impossible = TRY(fill_shapes(m, verdict));
    if (judgement.kind) return {};
    if (!impossible.empty()) {
      verdict.kind = VerdictKind::suspicious;
      verdict.reasons.insert(verdict.reasons.begin(), impossible);
      return {};
    }
    verdict.kind = kind_of_gain(verdict.gain, noise_);
    const std::string than = request_.incumbent.empty() ? "the baseline" : "the incumbent";
    verdict.reasons.insert(verdict.reasons.begin(),
                           gain_in_words(verdict.gain, noise_, than, m.decided_early));
    if (m.sleeps) verdict.reasons.push_back("it gives up its core inside of its calls");
    return {};
  }

  // Returns the sentence about a time that cannot be, if there is one.
  Result<std::string> fill_shapes(const Measurement& m, Verdict& verdict) {
    std::string impossible;
    for (size_t s = 0; s < m.shapes.size(); ++s) {
      const std::string& name = m.shapes[s]->shape->name;
      const auto found = std::find_if(verdict.shapes.begin(), verdict.shapes.end(),
                                      [&](const ShapeResult& shape) { return shape.name == name; });
      if (found == verdict.shapes.end()) continue;
      fill_times(m, s, *found);
      const FloorTimes floor = TRY(bench_.floor(*m.shapes[s]));
      found->floor_us = floor.floor_us;
      found->bound_by = floor.by_memory ? "memory" : "arithmetic";
      if (floor.impossible_us <= 0 || found->time_us >= floor.impossible_us) continue;
      found->verdict = VerdictKind::suspicious;
      const bool told = m.shapes[s]->shape->set != ShapeSet::hidden;
      impossible = fmt::format("{}: {} below what this machine can do at all{}: held for review",
                               name_in_words(*m.shapes[s]->shape),
                               told ? fmt::format("{:.3f} µs is", found->time_us) : "its time is",
                               told ? fmt::format(" ({:.3f} µs)", floor.impossible_us) : "");
    }
    return impossible;
  }

  void fill_times(const Measurement& m, size_t s, ShapeResult& shape) {
    shape.samples = {m.all_samples(Arm::candidate, s), m.all_samples(Arm::incumbent, s),
                     m.all_samples(Arm::baseline, s)};
    shape.time_us = 1e-3 * median(shape.samples.candidate_ns);
    shape.baseline_us = 1e-3 * median(shape.samples.baseline_ns);
    if (!shape.samples.incumbent_ns.empty())
      shape.incumbent_us = 1e-3 * median(shape.samples.incumbent_ns);
    const double other_us = m.other_cache_ns[s].empty() ? 0 : 1e-3 * median(m.other_cache_ns[s]);
    const bool warm = task_.measure.cache == CacheState::warm;
    shape.warm_us = warm ? shape.time_us : other_us;
    shape.cold_us = warm ? other_us : shape.time_us;
    Random& random = bench_.random();
    shape.speedup = m.ratio(Arm::baseline, Arm::candidate, random, static_cast<int>(s));
    shape.verdict =
        kind_of_gain(m.ratio(rival(), Arm::candidate, random, static_cast<int>(s)), noise_);
  }

  Verdict with_provenance(Verdict verdict, int64_t start_ns) const {
    Provenance& by = verdict.provenance;
    by.seed = request_.seed;
    bench_.describe(by);
    by.restarts = restarts_;
    by.windows = windows_;
    by.windows_discarded = discarded_;
    by.clock_disagreement = disagreement_.empty() ? 0 : median(disagreement_);
    by.noise = noise_;
    by.peak_gflops = request_.peaks.gflops;
    by.peak_gbytes_s = request_.peaks.memory_gbytes_s;
    by.check_s = check_s_;
    by.measure_s = measure_s_;
    by.seconds = seconds_since(start_ns);
    by.started_at_us = started_at_us_;
    by.judge_version = MARATHON_VERSION;
    double load = 0;
    if (::getloadavg(&load, 1) == 1) by.load_average = load;
    return verdict;
  }

  const BenchRequest& request_;
  const Task& task_;
  Bench& bench_;
  double noise_;
  std::vector<std::string> notes_;
  std::vector<double> disagreement_;
  int64_t windows_ = 0, discarded_ = 0, restarts_ = 0, started_at_us_ = 0;
  double check_s_ = 0, measure_s_ = 0;
};

}  // namespace

Result<std::unique_ptr<Bench>> make_bench(const BenchRequest& request, const Task& task) {
  return request.on_gpu() ? make_gpu_bench(request, task) : make_cpu_bench(request, task);
}

Result<Verdict> evaluate_candidate(const BenchRequest& request, const Task& task) {
  const std::unique_ptr<Bench> bench = TRY(make_bench(request, task));
  return Evaluation(request, task, *bench).run();
}

Result<NoiseFigures> measure_noise_figures(const BenchRequest& asked, const Task& task) {
  BenchRequest request = asked;
  request.candidate = request.baseline;
  request.candidate_cubins = request.baseline_cubins;
  request.incumbent.clear();
  const std::unique_ptr<Bench> bench = TRY(make_bench(request, task));
  const Bench::Prepared prepared = TRY(bench->prepare());
  if (prepared.failure)
    return fail(Fault::invalid, "the task's baseline fails: " + prepared.failure->why);
  if (!prepared.ambiguous.empty()) return fail(Fault::retry, prepared.ambiguous);
  const CheckResult checked = TRY(bench->check());
  if (checked.failure) {
    return fail(Fault::invalid, fmt::format("the task's baseline is wrong at {}: {}",
                                            checked.failed_shape, checked.failure->why));
  }
  MeasureOptions options;
  options.restarts = task.measure.restarts;
  options.extras = false;
  const Measurement m = TRY(bench->measure_noise(options));
  if (m.failure) return fail(Fault::invalid, "the task's baseline fails: " + m.failure->why);
  if (!m.ambiguous.empty()) return fail(Fault::retry, m.ambiguous);
  NoiseFigures figures;
  figures.ratio = m.ratio(Arm::incumbent, Arm::candidate, bench->random());
  figures.noise =
      std::max({std::abs(figures.ratio.low - 1), std::abs(figures.ratio.high - 1), least_noise});
  figures.windows = m.windows();
  return figures;
}

Status run_once(const BenchRequest& request, const Task& task) {
  const std::unique_ptr<Session> session = TRY(make_session(request, task, request.seed));
  if (const std::optional<WorkerFailure> failure = TRY(ask_workspaces(*session, request.candidate)))
    return fail(Fault::invalid, "the candidate fails: " + failure->why);
  for (const ShapePlan& plan : session->plans) {
    if (plan.shape->set != ShapeSet::listed ||
        (!request.shape.empty() && plan.shape->name != request.shape))
      continue;
    const Solved problem = TRY(solve(*session, plan, request.seed, Keep::inputs, false));
    const Solved* one[] = {&problem};
    const Window window = TRY(Window::make(plan, one));
    Worker worker = TRY(session->start(request.candidate, input_arena_bytes(plan.sizes, 1),
                                       output_arena_bytes(plan.sizes, 1)));
    Run run;
    for (int64_t call = 0; call < request.calls; ++call) {
      if (const std::optional<ShapeFailure> failure =
              run_window(*session, plan, window, worker, CacheState::warm, run))
        return fail(Fault::invalid, "the candidate fails: " + failure->why);
    }
    return {};
  }
  return fail(Fault::not_found, "the task has no listed shape " + request.shape);
}

}  // namespace marathon
