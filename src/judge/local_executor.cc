// The judge on this machine: chooses the pipeline, demands the sandbox, notes where it ran.
#include <fmt/format.h>
#include <stdlib.h>
#include <sys/utsname.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "judge/pipeline.h"
#include "judge/sanitize.h"

namespace marathon {

namespace fs = std::filesystem;

namespace {

constexpr int noise_attempts = 3;
constexpr double assumed_noise = 0.05;

class LocalExecutor : public Executor {
 public:
  Result<Verdict> evaluate(const EvaluationRequest& request, const StageSink& stage,
                           std::stop_token stop) override {
    TRY(require_sandbox(request));
    const LoadedTask* task = TRY(task_of(request.task_folder));
    switch (task->task.kind) {
      case TaskKind::command:
        return judge_command(*task, request, stage, stop);
      case TaskKind::kernel:
        break;
    }
    return judge_kernel(*task, request, stage, stop);
  }

 private:
  // One run evaluates one task hundreds of times and keeps a frozen copy of it: its folder is read
  // once.
  Result<const LoadedTask*> task_of(const fs::path& folder) {
    if (!loaded_ || loaded_->folder != fs::absolute(folder).lexically_normal())
      loaded_ = TRY(load_task(folder));
    return &*loaded_;
  }
  std::optional<LoadedTask> loaded_;
};

}  // namespace

Verdict failed_verdict(VerdictKind kind, std::string reason) {
  Verdict verdict;
  verdict.kind = kind;
  verdict.reasons.push_back(std::move(reason));
  return verdict;
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
  if (by.sandbox.empty())
    by.sandbox = std::string(
        to_string(request.unsafe_no_sandbox ? SandboxLevel::none : probe_sandbox().level));
  by.effort = request.effort == Effort::quick ? "quick" : "full";
  by.judge_version = MARATHON_VERSION;
  by.task_hash = task.hash;
  if (const Result<std::string> hash = candidate_hash(task.task, request.candidate_folder))
    by.candidate_hash = *hash;
  if (!request.incumbent_folder.empty()) {
    if (const Result<std::string> hash = candidate_hash(task.task, request.incumbent_folder))
      by.incumbent_hash = *hash;
  }
  double load = 0;
  if (by.load_average == 0 && ::getloadavg(&load, 1) == 1) by.load_average = load;
}

std::unique_ptr<Executor> make_local_executor() { return std::make_unique<LocalExecutor>(); }

Result<NoiseReport> measure_noise(const EvaluationRequest& request, std::stop_token stop) {
  TRY(require_sandbox(request));
  const LoadedTask task = TRY(load_task(request.task_folder));
  if (task.task.kind != TaskKind::kernel)
    return NoiseReport{{1, 1, 1}, task.task.command.min_gain, 0, ""};
  // Told before hours are spent: without its tools no candidate could become the best.
  if (!task.task.judge.sanitize.empty() && !find_compute_sanitizer()) {
    return fail(Fault::not_found,
                fmt::format("the task demands compute-sanitizer of a new best ([judge] sanitize in "
                            "task.toml), which is not installed here: {}; or take the demand out",
                            how_to_get_compute_sanitizer));
  }
  Libraries libraries;
  TRY(build_trusted(task, request, libraries, stop));
  libraries.candidate = libraries.baseline;
  const Json answer = TRY(call_bench(
      "noise", task, request, libraries, Json::object(),
      [](const std::string&, const std::string&, double) { return Status(); }, stop));
  NoiseReport report{
      {json_double(answer, "value"), json_double(answer, "low"), json_double(answer, "high")},
      json_double(answer, "noise"),
      json_int(answer, "windows"),
      ""};
  if (report.noise > 0 && report.ratio.value > 0) return report;
  return fail(Fault::system, "marathon-judge measured no noise: " + dump_json(answer));
}

Result<NoiseReport> measure_or_assume_noise(const EvaluationRequest& request,
                                            std::stop_token stop) {
  Result<NoiseReport> noise = measure_noise(request, stop);
  for (int again = 0; again < noise_attempts && !noise && noise.error().fault == Fault::retry;
       ++again) {
    noise = measure_noise(request, stop);
  }
  if (noise) return noise;
  if (noise.error().fault != Fault::retry)
    return fail(noise.error(), "the noise of this machine could not be measured");
  return NoiseReport{
      {1, 1 - assumed_noise, 1 + assumed_noise}, assumed_noise, 0, noise.error().what};
}

}  // namespace marathon
