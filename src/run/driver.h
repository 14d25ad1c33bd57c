// One run in this process: everything that acts on it. Inside of run/ only.
//
// Rules that hold everywhere in this class: nothing is done that is not on record first (intent),
// and nothing counts that is not on record after (outcome). Between two appends the process may
// die; settle() and the next call of the same function then go on from the fold alone.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "agent/agent.h"
#include "judge/judge.h"
#include "run/candidates.h"
#include "run/recorder.h"
#include "run/repeats.h"
#include "run/run.h"
#include "run/stop_rule.h"
#include "run/workspace.h"

namespace marathon {

inline constexpr const char* script_file = "agent.jsonl";  // in the run's folder

// What a candidate is before it is judged.
struct Submission {
  FileHashes files;
  std::string candidate;  // hash
  std::string hypothesis, category, by;
};

struct Judged {
  int64_t attempt = 0;    // its number
  bool from_log = false;  // it had been judged before: no evaluation was spent
};

class Driver {
 public:
  Driver(RunLock lock, Recorder recorder, LoadedTask task, std::filesystem::path folder,
         const RunOptions& options, std::stop_token stop);

  // From wherever the log stands to the ending. Returns without one when a stop was requested.
  Status drive();
  // Settles what a process that ended left open. Part of drive() and of an attempt.
  Status settle();
  // Judges a submission or answers from the log. A verdict that stands behind event `since` belongs
  // to this very call, which is done again after a crash; one before it is an answer from the log.
  Result<Judged> judge(const Submission& submission, int64_t since);
  // A verdict that came back from elsewhere, as if it had been judged here.
  Status take(const Submission& submission, const JudgedCandidate& judged);
  Result<Submission> submission_of(FileHashes files) const;
  Result<Verdict> verdict_of(const Attempt& attempt) const;
  Result<FileHashes> files_of(const Attempt& attempt) const;

  const State& state() const { return recorder_.state(); }
  Recorder& recorder() { return recorder_; }
  const Artifacts& artifacts() const { return recorder_.artifacts(); }
  const Task& task() const { return task_.task; }
  const LoadedTask& loaded_task() const { return task_; }
  const std::filesystem::path& folder() const { return folder_; }
  const Workspace& workspace() const { return workspace_; }

 private:
  // loop.cc
  Status bring_provider();
  Status unless_blocked(const Status& prepared);
  Status measure_machine();
  Status judge_start();
  Result<bool> end_if_due();
  Status take_turn();
  Status answer_call();
  Status recall_calls();
  Result<bool> at_limit();
  // evaluation.cc
  Status add_candidate(const Submission& submission);
  Status start_evaluation(EvaluationStarted started);
  Status run_evaluation();
  Result<Verdict> ask_judge(const EvaluationRequest& request, int64_t evaluation);
  Result<EvaluationRequest> request_for(const OpenEvaluation& open);
  Result<Verdict> verdict_for(const OpenEvaluation& open, const std::filesystem::path& results);
  Status promote_if_due(const std::string& candidate);
  // elsewhere.cc
  Result<Verdict> verdict_from(const std::string& result) const;
  Result<std::optional<std::string>> why_held_back(const Verdict& verdict) const;
  // recovery.cc
  Status settle_promotion();
  Status restore_workspace();
  Status restore_commits();

  RunLock lock_;
  Recorder recorder_;
  LoadedTask task_;
  std::filesystem::path folder_, cache_folder_;
  Workspace workspace_;
  std::unique_ptr<Executor> own_executor_;
  Executor* executor_;
  std::unique_ptr<Provider> own_provider_;
  Provider* provider_;
  bool unsafe_no_sandbox_, stop_at_goal_;
  std::stop_token stop_;
  Repeats repeats_;
  Patience patience_;

  // Answers of the log that are asked for again and again.
  struct Known {
    std::string candidate;
    int64_t finished_sequence = 0;
    Verdict verdict;
  };
  std::optional<Known> newest_verdict_;
  int64_t limit_known_at_ = 0;  // finished_sequence of the incumbent that at_limit_ is about
  bool at_limit_ = false;
};

}  // namespace marathon
