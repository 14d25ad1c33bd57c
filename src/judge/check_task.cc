// `marathon task check`: the text, the files, the checker itself (mutants), and the start's first
// verdict.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "judge/pipeline.h"
#include "judge/rules.h"

namespace marathon {

namespace {

Status silent(const std::string&, const std::string&, double) { return {}; }

// The oracle of a task for a GPU must say what the one in C++ says.
Status check_oracles(const LoadedTask& task, const EvaluationRequest& request, Libraries& libraries,
                     TaskCheck& check, std::stop_token stop) {
  const auto warn = [&](const char* words) {
    check.diagnostics.push_back({(task.folder / "task.toml").string(), 0, 0, true, words});
  };
  if (task.task.files.cpu_oracle.empty()) {
    warn(
        "nothing is compared with the oracle: write one in C++ and name it under [files] "
        "cpu_oracle");
    return {};
  }
  libraries.cpu_oracle =
      TRY(build(TRY(cpu_oracle_job(task, request)), request.cache_folder, {}, stop));
  if (!libraries.cpu_oracle.ok)
    return fail(Fault::invalid, "the task's oracle in C++ does not build: " +
                                    libraries.cpu_oracle.reason + "; repair the task");
  const Json answer =
      TRY(call_bench("oracles", task, request, libraries, Json::object(), silent, stop));
  if (!answer.contains("oracles") || !answer.at("oracles").is_array())
    return fail(Fault::system, "marathon-judge compared no oracles: " + dump_json(answer));
  if (answer.at("oracles").empty())
    warn("no shape is small enough to compare the oracle with the one in C++: add a hidden one");
  for (const Json& outcome : answer.at("oracles")) {
    const bool agrees = json_bool(outcome, "agrees");
    check.mutants.push_back({"none: the oracle in C++", json_string(outcome, "shape"),
                             agrees ? VerdictKind::same : VerdictKind::wrong, agrees,
                             json_string(outcome, "reason")});
  }
  return {};
}

// What the build of the start breaks; of Triton nothing is known before it has run.
Result<std::optional<std::string>> broken_start_rule(const LoadedTask& task, const BuildJob& job,
                                                     const Libraries& libraries,
                                                     const EvaluationRequest& request,
                                                     std::stop_token stop) {
  const BinaryRules rules = binary_rules(task.task, job);
  switch (job.language) {
    case Language::cpp:
      return broken_library_rule(rules, libraries.candidate, request.unsafe_no_sandbox, stop);
    case Language::cuda:
      return broken_cuda_rule(rules, libraries.candidate);
    case Language::triton:
      break;
  }
  return std::optional<std::string>();
}

// The checker must also let pass what is right: the baseline stands for that.
Status check_baseline(const LoadedTask& task, EvaluationRequest request, Libraries libraries,
                      TaskCheck& check, std::stop_token stop) {
  request.effort = Effort::quick;
  // A baseline in Python launches what no candidate may: the starting solution stands alone then.
  if (libraries.baseline.library.extension() == ".py") return {};
  libraries.candidate = libraries.baseline;
  const std::filesystem::path cubin =
      is_gpu_task(task.task) ? TRY(judge_cubin(request, stop)) : std::filesystem::path();
  const Json peaks = TRY(measured_peaks(request, cubin, stop));
  const Verdict verdict = TRY(verdict_from_json(
      TRY(call_bench("evaluate", task, request, libraries, peaks, silent, stop))));
  const bool passes = is_measured(verdict.kind) || verdict.kind == VerdictKind::ambiguous;
  check.mutants.push_back({"none: the baseline itself", "-", verdict.kind, passes,
                           verdict.reasons.empty() ? "" : verdict.reasons.front()});
  return {};
}

Status check_mutants(const LoadedTask& task, const EvaluationRequest& request, TaskCheck& check,
                     std::stop_token stop) {
  Libraries libraries;
  TRY(build_trusted(task, request, libraries, stop));
  const BuildJob job =
      TRY(read_implementation(task, request.candidate_folder, Origin::candidate, request)).job;
  libraries.candidate = TRY(build(job, request.cache_folder, {}, stop));
  if (!libraries.candidate.ok)
    return fail(Fault::invalid,
                "the starting solution does not build: " + libraries.candidate.reason);
  if (const std::optional<std::string> broken =
          TRY(broken_start_rule(task, job, libraries, request, stop))) {
    return fail(Fault::invalid, "the starting solution breaks a rule: " + *broken);
  }
  if (is_gpu_task(task.task)) TRY(check_oracles(task, request, libraries, check, stop));
  const Json answer =
      TRY(call_bench("mutants", task, request, libraries, Json::object(), silent, stop));
  if (!answer.contains("mutants") || !answer.at("mutants").is_array())
    return fail(Fault::system, "marathon-judge left no mutants: " + dump_json(answer));
  for (const Json& mutant : answer.at("mutants")) {
    const bool applies = json_bool(mutant, "applicable", true);
    const bool refused = applies && json_bool(mutant, "refused");
    check.mutants.push_back({json_string(mutant, "mutant"), json_string(mutant, "shape"),
                             refused ? VerdictKind::wrong : VerdictKind::same, refused || !applies,
                             json_string(mutant, "reason")});
  }
  return check_baseline(task, request, libraries, check, stop);
}

// A command task's graders must tell the start from a broken candidate: one whose editable files
// are empty.
Status check_command(const LoadedTask& task, EvaluationRequest request, TaskCheck& check,
                     std::stop_token stop) {
  const TempFolder scratch = TRY(TempFolder::make("marathon-check"));
  const std::filesystem::path start = task.folder / task.task.files.start;
  bool differs = false;
  for (const std::filesystem::path& file : TRY(editable_files(task.task, start))) {
    const bool parameters = file == std::filesystem::path(params_file);
    differs = differs || !parameters;
    TRY(make_folders((scratch.path() / file).parent_path()));
    TRY(write_file(scratch.path() / file, parameters ? TRY(read_file(start / file)) : ""));
  }
  if (!differs) return {};  // parameters are all that there is: they are never empty
  request.candidate_folder = scratch.path();
  const Verdict verdict = TRY(judge_command(task, request, silent, stop));
  check.mutants.push_back({"editable files empty", "-", verdict.kind, !is_measured(verdict.kind),
                           verdict.reasons.empty() ? "" : verdict.reasons.front()});
  return {};
}

}  // namespace

Result<TaskCheck> check_task(const EvaluationRequest& wish, std::stop_token stop) {
  TaskCheck check;
  const Result<LoadedTask> task = load_task(wish.task_folder, &check.diagnostics);
  if (!task) {
    if (check.diagnostics.empty()) return tl::unexpected(task.error());
    return check;
  }
  if (is_gpu_task(task->task)) {
    Status gpu = require_gpu(stop);
    // Oracle and judge's kernels are CUDA C++ whatever the candidate is.
    if (gpu) {
      if (const Result<Compiler> nvcc = find_nvcc(); !nvcc) gpu = tl::unexpected(nvcc.error());
    }
    // No GPU, driver or compiler for it here. The text is sound all the same.
    const bool none = !gpu && gpu.error().fault != Fault::cancelled &&
                      gpu.error().fault != Fault::retry && gpu.error().fault != Fault::busy;
    if (!gpu && !none) return tl::unexpected(gpu.error());
    if (none) {
      check.diagnostics.push_back(
          {task->task.name, 0, 0, true,
           "only the text was checked: oracle and checker are tested on a GPU (" +
               gpu.error().what + ")"});
      check.ok = true;
      return check;
    }
  }
  TRY(require_sandbox(wish));
  EvaluationRequest request = wish;
  request.candidate_folder = task->folder / task->task.files.start;
  const Status mutants = task->task.kind == TaskKind::kernel
                             ? check_mutants(*task, request, check, stop)
                             : check_command(*task, request, check, stop);
  if (!mutants) {
    if (mutants.error().fault != Fault::invalid) return tl::unexpected(mutants.error());
    check.diagnostics.push_back(
        {(task->folder / "task.toml").string(), 0, 0, false, mutants.error().what});
    return check;
  }
  check.start = TRY(make_local_executor()->evaluate(request, silent, stop));
  const bool start_passes =
      is_measured(check.start->kind) || check.start->kind == VerdictKind::ambiguous;
  check.ok = start_passes && std::all_of(check.mutants.begin(), check.mutants.end(),
                                         [](const MutantResult& m) { return m.as_expected; });
  return check;
}

}  // namespace marathon
