#include "bench/evaluate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/clock.h"
#include "base/sandbox.h"
#include "bench/check.h"
#include "bench/measure.h"
#include "bench/peaks.h"

namespace marathon {

namespace {

constexpr double race_margin_first = 0.03, race_margin = 0.01;
constexpr double beyond_the_chip = 1.15;  // a time below the peaks by this factor is not believed
constexpr double core_wait_s = 600;

double seconds_since(int64_t start_ns) {
  return 1e-9 * static_cast<double>(monotonic_ns() - start_ns);
}

std::string shown_name(const std::string& set, const std::string& name) {
  return set == "hidden" ? "a hidden shape" : "shape " + name;
}

Verdict failed(VerdictKind kind, std::string reason) {
  Verdict verdict;
  verdict.kind = kind;
  verdict.reasons.push_back(std::move(reason));
  return verdict;
}

struct FloorTimes {
  double floor_us = 0, impossible_us = 0;
  bool by_memory = false;
};

Result<FloorTimes> floor_of(const Task& task, const ShapePlan& plan, const Peaks& peaks) {
  const Expression::Lookup lookup = [&](std::string_view name) -> std::optional<int64_t> {
    const auto found = plan.shape->dims.find(std::string(name));
    return found == plan.shape->dims.end() ? std::nullopt : std::optional<int64_t>(found->second);
  };
  double bytes = 0, flops = 0;
  for (const int64_t tensor : plan.sizes.tensor_bytes) bytes += static_cast<double>(tensor);
  if (task.floor.bytes) bytes = static_cast<double>(TRY(task.floor.bytes->evaluate(lookup)));
  if (task.floor.flops) flops = static_cast<double>(TRY(task.floor.flops->evaluate(lookup)));
  FloorTimes times;
  if (peaks.gflops <= 0 || peaks.l2_gbytes_s <= 0) return times;
  const double arithmetic_us = flops / peaks.gflops * 1e-3;
  const double window_bytes = bytes * plan.sets;
  const double memory_us = bytes / bandwidth_for(peaks, static_cast<int64_t>(window_bytes)) * 1e-3;
  times.floor_us = std::max(arithmetic_us, memory_us);
  times.by_memory = memory_us > arithmetic_us;
  times.impossible_us = std::max(arithmetic_us, bytes / peaks.l2_gbytes_s * 1e-3) / beyond_the_chip;
  return times;
}

class Evaluation {
 public:
  Evaluation(const BenchRequest& request, const Task& task) : request_(request), task_(task) {}

  Result<Verdict> run() {
    const int64_t start_ns = monotonic_ns();
    const Fd lock = TRY(lock_core(
        request_.core >= 0 ? static_cast<int>(request_.core) : last_allowed_core(), core_wait_s));
    std::optional<WorkerFailure> failure;
    session_ = TRY(make_session(request_, task_, request_.seed, libraries(), failure));
    if (failure) return with_provenance(failed(failure->kind, failure->why), start_ns);
    Verdict verdict = TRY(check());
    if (is_measured(verdict.kind)) TRY(measure_and_decide(verdict));
    return with_provenance(std::move(verdict), start_ns);
  }

 private:
  // The candidate first: a failure to name its workspace is its own.
  std::vector<std::filesystem::path> libraries() const {
    std::vector<std::filesystem::path> all = {request_.candidate, request_.baseline};
    if (!request_.incumbent.empty()) all.push_back(request_.incumbent);
    return all;
  }

  Result<Verdict> check() {
    const int64_t start_ns = monotonic_ns();
    CheckResult checked = TRY(check_candidate(*session_, request_.candidate));
    Verdict verdict;
    verdict.kind = VerdictKind::same;
    if (checked.failure) {
      verdict = failed(checked.failure->kind,
                       fmt::format("{}: {}", shown_name(checked.failed_set, checked.failed_shape),
                                   checked.failure->why));
    } else if (!checked.repeatable) {
      notes_.push_back(
          "the same inputs gave other bits the second time: a race, or memory that nobody wrote");
    }
    verdict.shapes = std::move(checked.shapes);
    check_s_ = seconds_since(start_ns);
    print_stage("check",
                checked.failure ? verdict.reasons.front()
                                : fmt::format("{} shapes right", verdict.shapes.size()),
                check_s_);
    return verdict;
  }

  std::vector<std::filesystem::path> arms() const {
    return {request_.candidate, request_.incumbent, request_.baseline};
  }
  Arm rival() const { return request_.incumbent.empty() ? Arm::baseline : Arm::incumbent; }
  double noise() const { return std::max(request_.noise, least_noise); }

  bool loss_is_certain(const Measurement& measurement) {
    if (!request_.race || request_.incumbent.empty()) return false;
    const double margin = measurement.restarts == 1 ? race_margin_first : race_margin;
    return measurement.ratio(rival(), Arm::candidate, session_->random).high < 1 - noise() - margin;
  }

  Status measure_and_decide(Verdict& verdict) {
    const int64_t start_ns = monotonic_ns();
    const int64_t restarts = request_.quick ? 2 : task_.measure.restarts;
    Measurement first = TRY(measure(*session_, arms(), restarts,
                                    [&](const Measurement& m) { return loss_is_certain(m); }));
    TRY(decide(first, verdict));
    if (verdict.kind == VerdictKind::faster && !request_.quick) TRY(confirm(verdict));
    measure_s_ = seconds_since(start_ns);
    print_stage("measure",
                fmt::format("{} {:.3f}×, gain {:.3f}", to_string(verdict.kind),
                            verdict.speedup.value, verdict.gain.value),
                measure_s_);
    return {};
  }

  // The winner's curse: what won is measured again, with other inputs in other processes.
  Status confirm(Verdict& verdict) {
    Verdict again;
    again.kind = VerdictKind::same;
    again.shapes = verdict.shapes;
    Measurement second = TRY(measure(*session_, arms(), task_.measure.restarts,
                                     [](const Measurement&) { return false; }));
    TRY(decide(second, again));
    verdict.shapes = again.shapes;
    verdict.speedup = again.speedup;
    const Interval before = verdict.gain;
    verdict.gain = again.gain;
    if (again.kind == VerdictKind::faster) {
      verdict.confirmed = true;
      return {};
    }
    verdict.kind = is_measured(again.kind) ? VerdictKind::same : again.kind;
    verdict.reasons = again.reasons;
    verdict.reasons.insert(
        verdict.reasons.begin(),
        fmt::format("gain {:.3f} at first, not confirmed by a fresh measurement", before.value));
    return {};
  }

  Status decide(Measurement& m, Verdict& verdict) {
    windows_ += m.windows;
    discarded_ += m.discarded;
    restarts_ += m.restarts;
    disagreement_.insert(disagreement_.end(), m.disagreement.begin(), m.disagreement.end());
    verdict.decided_early = m.decided_early;
    if (m.failure) {
      verdict.kind = m.failure->kind;
      verdict.reasons = {
          fmt::format("shape {}, in a timed window: {}", m.failed_shape, m.failure->why)};
      return {};
    }
    if (!m.ambiguous.empty()) {
      verdict.kind = VerdictKind::ambiguous;
      verdict.reasons = {m.ambiguous};
      return {};
    }
    verdict.speedup = m.ratio(Arm::baseline, Arm::candidate, session_->random);
    verdict.gain = m.ratio(rival(), Arm::candidate, session_->random);
    TRY(fill_shapes(m, verdict));
    verdict.reasons = notes_;
    set_kind(m, verdict);
    return {};
  }

  void set_kind(const Measurement& m, Verdict& verdict) {
    const auto suspect = [&](std::string why) {
      verdict.kind = VerdictKind::suspicious;
      verdict.reasons.insert(verdict.reasons.begin(), std::move(why));
    };
    if (m.threaded * 2 > m.windows / 3) {
      return suspect(
          "the process used more CPU time than passed on the clock: more than one thread worked");
    }
    if (!impossible_.empty()) return suspect(impossible_);
    // Half of the calls must take half of the time: else work was done outside of the calls.
    if (const double slope = m.slope.empty() ? 1 : median(m.slope); slope > 1.6 || slope < 0.5) {
      return suspect(fmt::format(
          "time does not grow with the number of calls: half of them took {:.0f} % of the time",
          50 * slope));
    }
    const Interval& gain = verdict.gain;
    const std::string than = request_.incumbent.empty() ? "the baseline" : "the incumbent";
    if (gain.low > 1 + noise()) {
      verdict.kind = VerdictKind::faster;
      if (request_.quick)
        verdict.reasons.push_back("the quick judge never promotes: judge it in full");
    } else if (gain.high < 1 - noise()) {
      verdict.kind = VerdictKind::slower;
      verdict.reasons.push_back(fmt::format("{:.3f} times the speed of {} ({:.3f}–{:.3f}){}",
                                            gain.value, than, gain.low, gain.high,
                                            m.decided_early ? ", certain early" : ""));
    } else {
      verdict.kind = VerdictKind::same;
      verdict.reasons.push_back(fmt::format(
          "no difference from {} above the noise of {:.2f} %: gain {:.3f} ({:.3f}–{:.3f})", than,
          100 * noise(), gain.value, gain.low, gain.high));
    }
  }

  Status fill_shapes(const Measurement& m, Verdict& verdict) {
    impossible_.clear();
    if (baseline_errors_.empty())
      baseline_errors_ = TRY(errors_at_listed(*session_, request_.baseline));
    for (size_t s = 0; s < m.shapes.size(); ++s) {
      const ShapePlan& plan = *m.shapes[s];
      const auto found =
          std::find_if(verdict.shapes.begin(), verdict.shapes.end(),
                       [&](const ShapeResult& shape) { return shape.name == plan.shape->name; });
      if (found == verdict.shapes.end()) continue;
      ShapeResult& shape = *found;
      shape.samples = {m.all_samples(Arm::candidate, s), m.all_samples(Arm::incumbent, s),
                       m.all_samples(Arm::baseline, s)};
      const bool cold = task_.measure.cache == CacheState::cold;
      shape.time_us = 1e-3 * median(shape.samples.candidate_ns);
      const double other_us = m.other_ns[s].empty() ? 0 : 1e-3 * median(m.other_ns[s]);
      shape.cold_us = cold ? shape.time_us : other_us;
      shape.warm_us = cold ? other_us : shape.time_us;
      shape.baseline_us = 1e-3 * median(shape.samples.baseline_ns);
      if (!shape.samples.incumbent_ns.empty())
        shape.incumbent_us = 1e-3 * median(shape.samples.incumbent_ns);
      shape.speedup = m.ratio(Arm::baseline, Arm::candidate, session_->random, static_cast<int>(s));
      shape.verdict =
          shape_kind(m.ratio(rival(), Arm::candidate, session_->random, static_cast<int>(s)));
      shape.baseline_error = baseline_errors_[shape.name];
      const FloorTimes floor = TRY(floor_of(task_, plan, request_.peaks));
      shape.floor_us = floor.floor_us;
      shape.bound_by = floor.by_memory ? "memory" : "arithmetic";
      if (floor.impossible_us > 0 && shape.time_us < floor.impossible_us) {
        shape.verdict = VerdictKind::suspicious;
        impossible_ =
            fmt::format("shape {}: {:.2f} µs is below what this core can do at all ({:.2f} µs)",
                        shape.name, shape.time_us, floor.impossible_us);
      }
    }
    return {};
  }

  VerdictKind shape_kind(const Interval& gain) const {
    if (gain.low > 1 + noise()) return VerdictKind::faster;
    return gain.high < 1 - noise() ? VerdictKind::slower : VerdictKind::same;
  }

  Verdict with_provenance(Verdict verdict, int64_t start_ns) const {
    Provenance& by = verdict.provenance;
    by.seed = request_.seed;
    by.core = session_ ? session_->core : -1;
    by.restarts = restarts_;
    by.windows = windows_;
    by.windows_discarded = discarded_;
    by.clock_disagreement = disagreement_.empty() ? 0 : median(disagreement_);
    by.noise = noise();
    by.peak_gflops = request_.peaks.gflops;
    by.peak_gbytes_s = request_.peaks.memory_gbytes_s;
    by.check_s = check_s_;
    by.measure_s = measure_s_;
    by.seconds = seconds_since(start_ns);
    by.judge_version = MARATHON_VERSION;
    by.sandbox = std::string(
        to_string(request_.unsafe_no_sandbox ? SandboxLevel::none : probe_sandbox().level));
    return verdict;
  }

  const BenchRequest& request_;
  const Task& task_;
  std::unique_ptr<Session> session_;
  std::vector<std::string> notes_;
  std::map<std::string, double> baseline_errors_;
  std::vector<double> disagreement_;
  std::string impossible_;
  int64_t windows_ = 0, discarded_ = 0, restarts_ = 0;
  double check_s_ = 0, measure_s_ = 0;
};

}  // namespace

Result<Verdict> evaluate_candidate(const BenchRequest& request, const Task& task) {
  return Evaluation(request, task).run();
}

Result<NoiseFigures> measure_noise_figures(const BenchRequest& request, const Task& task) {
  const Fd lock = TRY(lock_core(
      request.core >= 0 ? static_cast<int>(request.core) : last_allowed_core(), core_wait_s));
  std::optional<WorkerFailure> failure;
  const std::unique_ptr<Session> session =
      TRY(make_session(request, task, request.seed, {request.baseline}, failure));
  if (failure) return fail(Fault::invalid, "the task's baseline fails: " + failure->why);
  const CheckResult checked = TRY(check_candidate(*session, request.baseline));
  if (checked.failure) {
    return fail(Fault::invalid, fmt::format("the task's baseline is wrong at {}: {}",
                                            checked.failed_shape, checked.failure->why));
  }
  Measurement m = TRY(measure(*session, {request.baseline, request.baseline, request.baseline},
                              task.measure.restarts, [](const Measurement&) { return false; }));
  if (m.failure) return fail(Fault::invalid, "the task's baseline fails: " + m.failure->why);
  if (!m.ambiguous.empty()) return fail(Fault::retry, m.ambiguous);
  NoiseFigures figures;
  figures.ratio = m.ratio(Arm::incumbent, Arm::candidate, session->random);
  figures.noise =
      std::max({std::abs(figures.ratio.low - 1), std::abs(figures.ratio.high - 1), least_noise});
  figures.windows = m.windows;
  return figures;
}

}  // namespace marathon
