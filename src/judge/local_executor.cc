// The pipeline of a kernel: build, rules, check and measure (marathon-judge), profile. A step that
// fails stops the rest.
#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/file.h"
#include "judge/pipeline.h"
#include "judge/rules.h"

namespace marathon {

namespace fs = std::filesystem;

namespace {

double seconds_since(int64_t start_us) {
  return 1e-6 * static_cast<double>(monotonic_us() - start_us);
}

Verdict failed(VerdictKind kind, std::string reason) {
  Verdict verdict;
  verdict.kind = kind;
  verdict.reasons.push_back(std::move(reason));
  return verdict;
}

class KernelJudge {
 public:
  KernelJudge(const LoadedTask& task, const EvaluationRequest& request, const StageSink& stage,
              std::stop_token stop)
      : task_(task), request_(request), stage_(stage), stop_(std::move(stop)) {}

  Result<Verdict> run() {
    const int64_t start_us = monotonic_us(), wall_us = wall_time_us();
    Verdict verdict = TRY(decide());
    Provenance& by = verdict.provenance;
    fill_provenance(by, task_, request_);
    by.started_at_us = wall_us;
    by.build_s = build_s_;
    by.profile_s = profile_s_;
    by.binary_hash = libraries_.candidate.library_hash;
    by.baseline_hash = libraries_.baseline.library_hash;
    by.seconds = seconds_since(start_us);
    return verdict;
  }

 private:
  Result<Verdict> decide() {
    if (const std::optional<std::string> broken = TRY(build_candidate())) {
      return failed(libraries_.candidate.ok ? VerdictKind::rule_broken : failure_kind_, *broken);
    }
    if (const std::optional<std::string> broken = TRY(check_rules()))
      return failed(VerdictKind::rule_broken, *broken);
    TRY(build_trusted(task_, request_, libraries_, stop_));
    TRY(build_incumbent());
    const Json peaks = TRY(measured_peaks(request_, stop_));
    Verdict verdict = TRY(verdict_from_json(
        TRY(call_bench("evaluate", task_, request_, libraries_, peaks, stage_, stop_))));
    verdict.build_output = libraries_.candidate.output;
    if (verdict.kind == VerdictKind::faster && verdict.confirmed && request_.profile_new_best &&
        task_.task.profile.on_new_best) {
      TRY(profile(verdict));
    }
    return verdict;
  }

  // The reason when the candidate does not build or its source breaks a rule.
  Result<std::optional<std::string>> build_candidate() {
    const int64_t start_us = monotonic_us();
    Result<BuildJob> job = implementation_job(task_, request_.candidate_folder, request_);
    if (!job && job.error().fault != Fault::invalid) return tl::unexpected(job.error());
    if (!job) {
      failure_kind_ = VerdictKind::rule_broken;
      return std::optional<std::string>(job.error().what);
    }
    if (std::optional<std::string> broken = broken_source_rule(task_.task, job->files)) {
      failure_kind_ = VerdictKind::rule_broken;
      return broken;
    }
    const fs::path whole =
        request_.result_folder.empty() ? fs::path() : request_.result_folder / "build.txt";
    libraries_.candidate = TRY(build(*job, request_.cache_folder, whole, stop_));
    build_s_ = seconds_since(start_us);
    const BuildOutcome& built = libraries_.candidate;
    TRY(stage_("build", built.ok ? (built.cached ? "from the cache" : "built") : built.reason,
               build_s_));
    return built.ok ? std::optional<std::string>() : std::optional<std::string>(built.reason);
  }

  Result<std::optional<std::string>> check_rules() {
    const int64_t start_us = monotonic_us();
    std::optional<std::string> broken =
        TRY(broken_binary_rule(task_.task, libraries_.candidate.library));
    TRY(stage_("rules", broken ? *broken : "kept", seconds_since(start_us)));
    return broken;
  }

  Status build_incumbent() {
    if (request_.incumbent_folder.empty()) return {};
    const BuildJob job = TRY(implementation_job(task_, request_.incumbent_folder, request_));
    libraries_.incumbent = TRY(build(job, request_.cache_folder, {}, stop_));
    if (!libraries_.incumbent.ok)
      return fail(Fault::system,
                  "the incumbent does not build any more: " + libraries_.incumbent.reason);
    return {};
  }

  Status profile(Verdict& verdict) {
    const int64_t start_us = monotonic_us();
    const fs::path raw =
        request_.result_folder.empty() ? fs::path() : request_.result_folder / "profile.txt";
    Result<ProfileSummary> summary = profile_kernel(task_, request_, verdict, raw, stop_);
    profile_s_ = seconds_since(start_us);
    if (!summary && summary.error().fault == Fault::cancelled)
      return tl::unexpected(summary.error());
    // A profile that could not be taken costs the profile, not the verdict.
    verdict.profile = summary ? std::move(*summary)
                              : ProfileSummary{"none", {}, {"no profile: " + summary.error().what}};
    return stage_("profile",
                  verdict.profile->sentences.empty() ? "" : verdict.profile->sentences.front(),
                  profile_s_);
  }

  const LoadedTask& task_;
  const EvaluationRequest& request_;
  const StageSink& stage_;
  std::stop_token stop_;
  Libraries libraries_;
  VerdictKind failure_kind_ = VerdictKind::build_failed;
  double build_s_ = 0, profile_s_ = 0;
};

class LocalExecutor : public Executor {
 public:
  Result<Verdict> evaluate(const EvaluationRequest& request, const StageSink& stage,
                           std::stop_token stop) override {
    TRY(require_sandbox(request));
    const LoadedTask* task = TRY(task_of(request.task_folder));
    switch (task->task.kind) {
      case TaskKind::kernel:
        break;
      case TaskKind::command:
        return judge_command(*task, request, stage, stop);
    }
    for (const Language language : task->task.languages) {
      if (language == Language::cpp) return judge_kernel(*task, request, stage, stop);
    }
    return fail(
        Fault::invalid,
        "this version judges C++ only; CUDA and Triton tasks are checked by `marathon task check`");
  }

 private:
  // One run evaluates one task hundreds of times: its folder is read once. The run keeps a frozen
  // copy.
  Result<const LoadedTask*> task_of(const fs::path& folder) {
    if (!loaded_ || loaded_->folder != fs::absolute(folder).lexically_normal())
      loaded_ = TRY(load_task(folder));
    return &*loaded_;
  }
  std::optional<LoadedTask> loaded_;
};

}  // namespace

Result<Verdict> judge_kernel(const LoadedTask& task, const EvaluationRequest& request,
                             const StageSink& stage, std::stop_token stop) {
  return KernelJudge(task, request, stage, std::move(stop)).run();
}

Status require_sandbox(const EvaluationRequest& request) {
  if (request.unsafe_no_sandbox) return {};
  const SandboxStatus status = probe_sandbox();
  if (status.level == SandboxLevel::full) return {};
  return fail(Fault::system, "candidates cannot be jailed here: " + status.missing +
                                 "; or accept that with --unsafe-no-sandbox");
}

void fill_provenance(Provenance& by, const LoadedTask& task, const EvaluationRequest& request) {
  utsname system{};
  ::uname(&system);
  by.host = system.nodename;
  by.kernel = system.release;
  by.cpu = cpu_model();
  if (const Result<Compiler> compiler = find_compiler()) by.compiler = compiler->version;
  for (const std::string& flag : task.task.build.flags)
    by.flags += (by.flags.empty() ? "" : " ") + flag;
  by.sandbox = std::string(
      to_string(request.unsafe_no_sandbox ? SandboxLevel::none : probe_sandbox().level));
  by.judge_version = MARATHON_VERSION;
  by.task_hash = task.hash;
  if (const Result<std::string> hash = candidate_hash(task.task, request.candidate_folder))
    by.candidate_hash = *hash;
  if (!request.incumbent_folder.empty()) {
    if (const Result<std::string> hash = candidate_hash(task.task, request.incumbent_folder))
      by.incumbent_hash = *hash;
  }
  double load[1] = {0};
  if (::getloadavg(load, 1) == 1) by.load_average = load[0];
}

std::unique_ptr<Executor> make_local_executor() { return std::make_unique<LocalExecutor>(); }

Result<NoiseReport> measure_noise(const EvaluationRequest& request, std::stop_token stop) {
  TRY(require_sandbox(request));
  const LoadedTask task = TRY(load_task(request.task_folder));
  if (task.task.kind != TaskKind::kernel)
    return NoiseReport{{1, 1, 1}, task.task.command.min_gain, 0};
  Libraries libraries;
  TRY(build_trusted(task, request, libraries, stop));
  libraries.candidate = libraries.baseline;
  const Json answer = TRY(call_bench(
      "noise", task, request, libraries, Json::object(),
      [](const std::string&, const std::string&, double) { return Status(); }, stop));
  return NoiseReport{
      {json_double(answer, "value"), json_double(answer, "low"), json_double(answer, "high")},
      json_double(answer, "noise"),
      json_int(answer, "windows")};
}

}  // namespace marathon
