// Judging inside of a run: intent, act, outcome, promotion; answers from the log.
#include <fmt/format.h>

#include <algorithm>

#include "base/file.h"
#include "base/hash.h"
#include "base/random.h"
#include "run/driver.h"
#include "run/payloads.h"

namespace marathon {

namespace fs = std::filesystem;

namespace {

constexpr int judge_attempts = 3;
constexpr double pause_before_retry_s = 1;
constexpr size_t max_stage_bytes = 1000, max_hypothesis_bytes = 2000, max_category_bytes = 100;

// One intent, one outcome, for ever. The number is in it because a candidate that could not be
// measured may be judged again.
std::string evaluation_key(const State& state, const EvaluationStarted& started) {
  Sha256 hash;
  hash.update_field(state.start ? state.start->run : "");
  hash.update_field(std::to_string(started.evaluation));
  hash.update_field(started.candidate);
  hash.update_field(started.incumbent);
  return hash.finish_hex();
}

// A verdict is final but for `ambiguous`: the machine was disturbed, which says nothing about the
// candidate. It is judged once more at once, and again when it is proposed again; not for ever: a
// candidate that disturbs its own measurement would eat the budget. Counted in pairs, so that a
// process that takes over in the middle of a call knows where it stands.
constexpr int64_t ambiguous_verdicts_allowed = 4;

bool may_be_judged(const Attempt& attempt, bool in_this_call, const State& state) {
  if (!attempt.verdict) return true;
  // A figure of another machine that does not count does not stand in for one of this machine.
  if (attempt.elsewhere && !attempt.became_incumbent && is_measured(*attempt.verdict)) return true;
  if (*attempt.verdict != VerdictKind::ambiguous) return false;
  if (attempt.evaluations >= ambiguous_verdicts_allowed) return false;
  const bool budget_left =
      state.budget.evaluations == 0 || state.spent.evaluations < state.budget.evaluations;
  return !in_this_call || (attempt.evaluations % 2 == 1 && budget_left);
}

// What the search may learn from. A person's candidate with another source says nothing about the
// configurations of this one.
bool is_of_the_workspace(const Submission& submission, const FileHashes& workspace) {
  if (submission.by != "person") return true;
  const std::string params(params_file);
  return std::ranges::all_of(submission.files, [&](const auto& file) {
    const auto own = workspace.find(file.first);
    return file.first == params || (own != workspace.end() && own->second == file.second);
  });
}

Result<Configuration> configuration_of(const Task& task, const Submission& submission,
                                       const State& state, const Artifacts& artifacts) {
  // Figures of another machine teach the search nothing.
  if (submission.by == "elsewhere") return Configuration();
  const auto params = submission.files.find(std::string(params_file));
  if (task.parameters.empty() || params == submission.files.end()) return Configuration();
  if (!is_of_the_workspace(submission, state.workspace)) return Configuration();
  const Result<Configuration> parsed = parse_params_toml(task, TRY(artifacts.get(params->second)));
  return parsed && is_valid(task, *parsed) ? *parsed : Configuration();
}

}  // namespace

Result<Submission> Driver::submission_of(FileHashes files) const {
  Submission submission;
  submission.candidate = TRY(hash_of(files, artifacts()));
  submission.files = std::move(files);
  return submission;
}

Result<Verdict> Driver::verdict_of(const Attempt& attempt) const {
  const bool known = newest_verdict_ && newest_verdict_->candidate == attempt.candidate &&
                     newest_verdict_->finished_sequence == attempt.finished_sequence;
  if (known) return newest_verdict_->verdict;
  return marathon::verdict_of(folder_, attempt);
}

Result<FileHashes> Driver::files_of(const Attempt& attempt) const {
  return marathon::files_of(folder_, attempt);
}

Result<Judged> Driver::judge(const Submission& submission, int64_t since) {
  if (!find_attempt(state(), submission.candidate)) TRY(add_candidate(submission));
  while (true) {
    const Attempt& attempt = *find_attempt(state(), submission.candidate);
    const bool in_this_call = attempt.finished_sequence > since;
    if (!may_be_judged(attempt, in_this_call, state()))
      return Judged{attempt.number, !in_this_call};
    EvaluationStarted started;
    started.candidate = submission.candidate;
    started.incumbent = state().incumbent ? state().incumbent->candidate : "";
    started.seed = secret_seed() >> 1;  // fits readers of JSON that know no unsigned numbers
    TRY(start_evaluation(std::move(started)));
    TRY(run_evaluation());
  }
}

Status Driver::add_candidate(const Submission& submission) {
  CandidateAdded added;
  added.candidate = submission.candidate;
  added.files = submission.files;
  added.hypothesis = cut_for_json(submission.hypothesis, max_hypothesis_bytes);
  added.category = cut_for_json(submission.category, max_category_bytes);
  added.by = submission.by;
  added.configuration = TRY(configuration_of(task(), submission, state(), artifacts()));
  // The parent is what it will be compared with.
  const Attempt* parent = incumbent_of(state());
  if (parent) added.parent = parent->candidate;
  const int64_t number = static_cast<int64_t>(state().attempts.size()) + 1;
  const CommitParts parts{added.files, added.candidate, parent ? parent->commit : "", number,
                          fmt::format("#{} {}: {}\n", number, added.category, added.hypothesis)};
  TRY(recorder_.patiently(
      [&]() -> Status {
        added.commit = TRY(workspace_.commit(parts, artifacts()));
        return {};
      },
      "the candidate's commit"));
  TRY(recorder_.record(added));
  return {};
}

Status Driver::start_evaluation(EvaluationStarted started) {
  started.evaluation = state().spent.evaluations + 1;
  started.key = evaluation_key(state(), started);
  TRY(recorder_.record(started));
  return {};
}

// The open evaluation, for the first time or again after a crash: the same number, key and seed.
Status Driver::run_evaluation() {
  const OpenEvaluation open = *state().evaluation_open;
  const fs::path results = folder_ / "scratch" / "result";
  Verdict verdict = TRY(verdict_for(open, results));
  EvaluationFinished finished;
  finished.evaluation = open.evaluation;
  finished.candidate = open.candidate;
  finished.key = open.key;
  finished.verdict = TRY(fit_verdict(std::move(verdict), results, recorder_));
  finished.active_s = recorder_.active_s();
  const Event event = TRY(recorder_.record(finished));
  newest_verdict_ = Known{open.candidate, event.sequence, std::move(finished.verdict)};
  patience_.calls_without_evaluation = 0;
  return promote_if_due(open.candidate);
}

// From the judge, or what came back from elsewhere; `results` gets what belongs to it.
Result<Verdict> Driver::verdict_for(const OpenEvaluation& open, const fs::path& results) {
  if (open.result.empty()) return ask_judge(TRY(request_for(open)), open.evaluation);
  TRY(recorder_.patiently([&] { return write_files({}, artifacts(), results); },
                          "the files of an evaluation"));
  return verdict_from(open.result);
}

// A full disk is waited out, what may pass is tried again. Anything else stops the run where it
// stands: the evaluation stays open and is repeated by the next resume.
Result<Verdict> Driver::ask_judge(const EvaluationRequest& request, int64_t evaluation) {
  const StageSink stage = [&](const std::string& name, const std::string& text,
                              double seconds) -> Status {
    TRY(recorder_.record(EvaluationStage{evaluation, cut_for_json(name, max_stage_bytes),
                                         cut_for_json(text, max_stage_bytes), seconds}));
    return {};
  };
  int attempts = 0;
  while (true) {
    Result<Verdict> verdict = executor_->evaluate(request, stage, stop_);
    if (verdict) return verdict;
    if (stop_.stop_requested()) return fail(Fault::cancelled, "stopped during an evaluation");
    const Error& error = verdict.error();
    const bool passes =
        error.fault == Fault::retry || error.fault == Fault::busy || error.fault == Fault::timeout;
    if (error.fault == Fault::no_space) {
      TRY(recorder_.stand_still(error));
    } else if (passes && ++attempts < judge_attempts) {
      wait_unless_stopped(pause_before_retry_s, stop_);
    } else {
      return fail(error, fmt::format("evaluation {}", evaluation));
    }
  }
}

Result<EvaluationRequest> Driver::request_for(const OpenEvaluation& open) {
  const fs::path scratch = folder_ / "scratch";
  EvaluationRequest request;
  request.task_folder = task_.folder;
  request.candidate_folder = scratch / "candidate";
  request.result_folder = scratch / "result";
  request.seed = open.seed;
  request.noise = state().noise;
  request.unsafe_no_sandbox = unsafe_no_sandbox_;
  request.cache_folder = cache_folder_;
  const FileHashes candidate = TRY(files_of(*find_attempt(state(), open.candidate)));
  FileHashes incumbent;
  if (!open.incumbent.empty()) {
    request.incumbent_folder = scratch / "incumbent";
    request.incumbent_speedup = state().incumbent ? state().incumbent->speedup.value : 0;
    incumbent = TRY(files_of(*find_attempt(state(), open.incumbent)));
  }
  TRY(recorder_.patiently(
      [&]() -> Status {
        TRY(write_files(candidate, artifacts(), request.candidate_folder));
        if (!open.incumbent.empty())
          TRY(write_files(incumbent, artifacts(), request.incumbent_folder));
        return write_files({}, artifacts(), request.result_folder);
      },
      "the files of an evaluation"));
  return request;
}

Status Driver::promote_if_due(const std::string& candidate) {
  const Attempt& attempt = *find_attempt(state(), candidate);
  if (!attempt.verdict || attempt.became_incumbent) return {};
  const Verdict verdict = TRY(verdict_of(attempt));
  if (!promotes(verdict, state().incumbent.has_value())) return {};
  if (TRY(why_held_back(verdict))) return {};
  IncumbentChanged changed;
  changed.candidate = candidate;
  changed.previous = state().incumbent ? state().incumbent->candidate : "";
  changed.speedup = verdict.speedup;
  changed.gain = verdict.gain;
  changed.evaluation = attempt.evaluation;
  // Before the event: a process that dies in between does it again, and it is the same.
  const std::string commit = attempt.commit;
  TRY(recorder_.patiently([&] { return workspace_.set_best(commit); }, "the best one's commit"));
  TRY(recorder_.record(changed));
  return {};
}

}  // namespace marathon
