// Tasks of kind "command": build, check and measure are programs of the task. The files that grade
// are frozen: they are put back from the task's folder before each step, and a candidate that
// brings or touches them breaks the rule.
//
// What a step that fails becomes: build → build_failed, check → wrong, measure → crashed (also when
// its output holds no figure), any of them over its time → timed_out.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "core/statistics.h"
#include "judge/command.h"
#include "judge/pipeline.h"
#include "judge/rules.h"

namespace marathon {

namespace fs = std::filesystem;

namespace {

constexpr size_t tail_bytes = 300;

std::string tail_of(const ProcessResult& result) {
  std::string_view text = result.err.empty() ? result.out : result.err;
  while (text.ends_with('\n')) text.remove_suffix(1);
  return std::string(text.substr(text.size() - std::min(text.size(), tail_bytes)));
}

std::string how_it_ended(const StepResult& step, const Task& task) {
  const ProcessResult& result = step.process;
  if (step.disk_filled) return "filled the disk (more than 4 GB)";
  if (result.timed_out) return fmt::format("took longer than {:g} s", task.command.timeout_s);
  if (result.too_many_processes) return "started too many processes";
  if (result.too_much_memory)
    return fmt::format("used more than {} MB", task.build.max_memory_bytes >> 20);
  if (result.signal != 0) return fmt::format("was ended by signal {}", result.signal);
  return fmt::format("ended with exit code {}", result.exit_code);
}

bool is_good(const StepResult& step) {
  return step.process.exit_code == 0 && !step.process.timed_out && !step.disk_filled;
}

// What one implementation came to: samples, or a failure.
struct Measured {
  std::vector<double> samples;
  std::optional<Verdict> failure;
  std::string build_output;
  double build_s = 0, check_s = 0, measure_s = 0;
};

class CommandJudge {
 public:
  CommandJudge(const LoadedTask& task, const EvaluationRequest& request, const StageSink& stage,
               std::stop_token stop)
      : task_(task),
        command_(task.task.command),
        request_(request),
        stage_(stage),
        stop_(std::move(stop)) {}

  Result<Verdict> run() {
    const int64_t start_us = monotonic_us(), wall_us = wall_time_us();
    if (!request_.result_folder.empty()) TRY(make_folders(request_.result_folder));
    Verdict verdict = TRY(decide());
    verdict.reasons.insert(verdict.reasons.end(), notes_.begin(), notes_.end());
    verdict.metric_unit = command_.unit;
    verdict.build_output = candidate_.build_output;
    Provenance& by = verdict.provenance;
    fill_provenance(by, task_, request_);
    by.noise = command_.min_gain;
    by.started_at_us = wall_us;
    by.build_s = candidate_.build_s;
    by.check_s = candidate_.check_s;
    by.measure_s = candidate_.measure_s;
    by.seconds = 1e-6 * static_cast<double>(monotonic_us() - start_us);
    return verdict;
  }

 private:
  struct Role {
    fs::path folder;
    const char* name;
  };

  Result<Verdict> decide() {
    if (std::optional<std::string> broken = TRY(broken_rule())) {
      TRY(stage_("rules", *broken, 0));
      return failed_verdict(VerdictKind::rule_broken, *broken);
    }
    Verdict verdict = TRY(measure_and_compare());
    const bool again = verdict.kind == VerdictKind::faster && request_.effort == Effort::full;
    if (!again) return verdict;
    verdict.confirmed = true;
    if (!varies_) return verdict;  // the figure does not vary: once is enough
    return confirm(std::move(verdict));
  }

  // The winner's curse: what won is built, checked and measured again.
  Result<Verdict> confirm(Verdict first) {
    TRY(stage_("measure", fmt::format("gain {:.3f}: measuring again, fresh", first.gain.value), 0));
    Verdict second = TRY(measure_and_compare());
    second.confirmed = second.kind == VerdictKind::faster;
    if (second.confirmed || !is_measured(second.kind)) return second;
    second.kind = VerdictKind::same;
    second.reasons.insert(
        second.reasons.begin(),
        fmt::format("faster at first (gain {:.3f}), not confirmed by a fresh measurement ({:.3f})",
                    first.gain.value, second.gain.value));
    return second;
  }

  Result<Verdict> measure_and_compare() {
    return command_.interleave ? interleaved() : one_by_one();
  }

  Role baseline() const {
    const fs::path own = task_.folder / task_.task.files.baseline;
    return {fs::is_directory(own) ? own : task_.folder / task_.task.files.start, "baseline"};
  }
  Role candidate() const { return {request_.candidate_folder, "candidate"}; }
  Role incumbent() const { return {request_.incumbent_folder, "incumbent"}; }

  Result<std::optional<std::string>> broken_rule() {
    for (const fs::path& file : TRY(frozen_files(task_))) {
      const Result<std::string> own = read_file(request_.candidate_folder / file);
      if (own && *own != TRY(read_file(task_.folder / file))) {
        return std::optional<std::string>(fmt::format(
            "'{}' grades the candidate and is frozen, but it was changed", file.string()));
      }
    }
    Result<CandidateFiles> files = read_candidate(task_, request_.candidate_folder);
    if (!files && files.error().fault == Fault::invalid)
      return std::optional<std::string>(files.error().what);
    notes_ = TRY(std::move(files)).notes;
    return broken_source_rule(task_.task,
                              TRY(read_candidate(task_, request_.candidate_folder)).editable);
  }

  // Files written, built and checked; a failure otherwise.
  Status prepare(Workspace& workspace, const Role& role, Measured& measured) {
    Result<CandidateFiles> files = read_candidate(task_, role.folder);
    Status opened = files ? workspace.open(files->editable, role.folder)
                          : Status(tl::unexpected(files.error()));
    if (!opened && opened.error().fault != Fault::invalid) return opened;
    if (!opened) {
      measured.failure = failed_verdict(VerdictKind::rule_broken, opened.error().what);
      return {};
    }
    TRY(run_step(workspace, role, "build", command_.build, VerdictKind::build_failed, measured,
                 measured.build_s));
    if (measured.failure) return {};
    const bool kept = TRY(workspace.keep());
    if (!kept && is_candidate(role))
      notes_.emplace_back(
          "the workspace is too large to be put back after the check (512 MB): what the check "
          "leaves is measured");
    return run_step(workspace, role, "check", command_.check, VerdictKind::wrong, measured,
                    measured.check_s);
  }

  static bool is_candidate(const Role& role) { return role.name == std::string_view("candidate"); }

  Status run_step(Workspace& workspace, const Role& role, const char* name,
                  const std::vector<std::string>& argv, VerdictKind kind, Measured& measured,
                  double& seconds) {
    if (argv.empty()) return {};
    // The last step's output is kept whole: it is the one that a failure asks for.
    const bool keeps = is_candidate(role) && !request_.result_folder.empty();
    const StepResult step =
        TRY(workspace.step(argv, keeps ? request_.result_folder / "build.txt" : fs::path()));
    seconds += step.process.wall_s;
    measured.build_output = step.process.out + step.process.err;
    judge_step(step, name, kind, measured);
    if (!is_candidate(role)) return {};
    return stage_(name, measured.failure ? measured.failure->reasons.front() : "passed",
                  step.process.wall_s);
  }

  void judge_step(const StepResult& step, const char* name, VerdictKind kind, Measured& measured) {
    if (step.broken_rule) {
      measured.failure = failed_verdict(VerdictKind::rule_broken, *step.broken_rule);
      return;
    }
    if (is_good(step)) return;
    const std::string said = tail_of(step.process);
    measured.failure = failed_verdict(step.process.timed_out ? VerdictKind::timed_out : kind,
                                      fmt::format("{} {}{}", name, how_it_ended(step, task_.task),
                                                  said.empty() ? "" : ": " + said));
  }

  Status sample(Workspace& workspace, Measured& measured) {
    TRY(workspace.put_back());
    const StepResult step = TRY(workspace.step(command_.measure));
    measured.measure_s += step.process.wall_s;
    judge_step(step, "measure", VerdictKind::crashed, measured);
    if (measured.failure) return {};
    const Result<double> value = metric_in(command_, step.process.out);
    if (!value) {
      measured.failure = failed_verdict(VerdictKind::crashed, value.error().what);
    } else if (!std::isfinite(*value) || *value < 0) {
      measured.failure = failed_verdict(
          VerdictKind::suspicious,
          fmt::format("the figure is {}: it must be a number that is not negative", *value));
    } else {
      measured.samples.push_back(*value);
    }
    return {};
  }

  int64_t repeats() const {
    return request_.effort == Effort::quick ? (command_.repeats + 1) / 2 : command_.repeats;
  }

  Result<Measured> measure_all(const Role& role) {
    Workspace workspace(task_, request_, stop_);
    Measured measured;
    TRY(prepare(workspace, role, measured));
    for (int64_t i = 0; i < repeats() && !measured.failure; ++i) TRY(sample(workspace, measured));
    return measured;
  }

  // An implementation that was accepted before must not fail now.
  Status require(const Measured& measured, const Role& role) const {
    if (!measured.failure) return {};
    return fail(
        Fault::invalid,
        fmt::format("the {} fails ({}): {}; repair the task or look at the machine", role.name,
                    to_string(measured.failure->kind), measured.failure->reasons.front()));
  }

  // Baseline and incumbent are measured once and kept: their content does not change.
  Result<std::vector<double>> known_samples(const Role& role) {
    Sha256 hash;
    for (const std::string& part : {task_.hash, TRY(candidate_hash(task_.task, role.folder)),
                                    cpu_identity(), host_name(), std::to_string(repeats())})
      hash.update_field(part);
    const fs::path file = request_.cache_folder / "metrics" / (hash.finish_hex() + ".json");
    if (Result<std::vector<double>> known = read_samples(file)) return known;
    const Measured measured = TRY(measure_all(role));
    TRY(require(measured, role));
    TRY(make_folders(file.parent_path()));
    TRY(write_file_durable(file, dump_json(Json(measured.samples))));
    return measured.samples;
  }

  static std::string host_name() {
    std::array<char, 256> name{};
    (void)::gethostname(name.data(), name.size() - 1);
    return name.data();
  }

  static Result<std::vector<double>> read_samples(const fs::path& file) {
    const Json json = TRY(parse_json(TRY(read_file(file, 1 << 20))));
    std::vector<double> samples;
    for (const Json& sample : json) {
      if (!sample.is_number()) return fail(Fault::corrupt, file.string());
      samples.push_back(sample.get<double>());
    }
    if (samples.empty()) return fail(Fault::corrupt, file.string());
    return samples;
  }

  Result<Verdict> one_by_one() {
    take(TRY(measure_all(candidate())));
    if (candidate_.failure) return *candidate_.failure;
    const std::vector<double> base = TRY(known_samples(baseline()));
    const std::vector<double> rival =
        request_.incumbent_folder.empty() ? base : TRY(known_samples(incumbent()));
    return compare(rival, base, false);
  }

  // For times: candidate, incumbent and baseline in turn, so that drift hits all alike.
  Result<Verdict> interleaved() {
    std::vector<Role> roles = {candidate(), baseline()};
    if (!request_.incumbent_folder.empty()) roles.push_back(incumbent());
    std::vector<std::unique_ptr<Workspace>> workspaces;
    std::vector<Measured> measured(roles.size());
    for (size_t i = 0; i < roles.size(); ++i) {
      workspaces.push_back(std::make_unique<Workspace>(task_, request_, stop_));
      TRY(prepare(*workspaces[i], roles[i], measured[i]));
      if (i > 0) TRY(require(measured[i], roles[i]));
      if (measured[0].failure) break;
    }
    for (int64_t round = 0; round < repeats() && !measured[0].failure; ++round) {
      for (size_t turn = 0; turn < roles.size() && !measured[0].failure; ++turn) {
        const size_t i = (turn + static_cast<size_t>(round)) % roles.size();
        TRY(sample(*workspaces[i], measured[i]));
        if (i > 0) TRY(require(measured[i], roles[i]));
      }
    }
    take(std::move(measured[0]));
    if (candidate_.failure) return *candidate_.failure;
    return compare(measured.back().samples, measured[1].samples, true);
  }

  // The candidate's figures; seconds add up over a second measurement.
  void take(Measured measured) {
    measured.build_s += candidate_.build_s;
    measured.check_s += candidate_.check_s;
    measured.measure_s += candidate_.measure_s;
    candidate_ = std::move(measured);
  }

  Result<Verdict> compare(const std::vector<double>& rival, const std::vector<double>& base,
                          bool paired) {
    const std::vector<double>& own = candidate_.samples;
    varies_ = !is_constant(own) || !is_constant(rival);
    Verdict verdict;
    verdict.metric = median(own);
    verdict.baseline_metric = median(base);
    verdict.speedup = gain_of(command_, base, own, paired);
    verdict.gain = gain_of(command_, rival, own, paired);
    if (verdict.gain.low > 1 + command_.min_gain)
      verdict.kind = VerdictKind::faster;
    else if (verdict.gain.high < 1 - command_.min_gain)
      verdict.kind = VerdictKind::slower;
    else
      verdict.kind = VerdictKind::same;
    verdict.reasons.push_back(
        fmt::format("{:g} {} against {:g}", verdict.metric, command_.unit, median(rival)));
    TRY(stage_("measure", verdict.reasons.front(), candidate_.measure_s));
    return verdict;
  }

  const LoadedTask& task_;
  const CommandSpec& command_;
  const EvaluationRequest& request_;
  const StageSink& stage_;
  std::stop_token stop_;
  std::vector<std::string> notes_;
  Measured candidate_;
  bool varies_ = false;
};

}  // namespace

Result<Verdict> judge_command(const LoadedTask& task, const EvaluationRequest& request,
                              const StageSink& stage, std::stop_token stop) {
  return CommandJudge(task, request, stage, std::move(stop)).run();
}

}  // namespace marathon
