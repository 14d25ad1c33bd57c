// One run in this process: everything that acts on it. Inside of run/ only.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "agent/agent.h"
#include "judge/judge.h"
#include "run/recorder.h"
#include "run/run.h"
#include "run/workspace.h"

namespace marathon {

// What a candidate is before it is judged.
struct Submission {
  FileHashes files;
  std::string candidate;  // hash
  std::string hypothesis, category, by;
};

class Driver {
 public:
  Driver(RunLock lock, Recorder recorder, LoadedTask task, std::filesystem::path folder,
         const RunOptions& options);

  // From wherever the log stands to the ending. Returns without an ending when a stop was
  // requested.
  Status drive(std::stop_token stop);
  // Settles what a crash left open. Part of drive() and of an attempt.
  Status settle(std::stop_token stop);
  // Judges one submission, or answers from the log. The attempt's number.
  Result<int64_t> judge(const Submission& submission, std::stop_token stop);

  const State& state() const { return recorder_.state(); }
  Recorder& recorder() { return recorder_; }
  const Task& task() const { return task_.task; }
  const LoadedTask& loaded_task() const { return task_; }
  const Workspace& workspace() const { return workspace_; }
  double active_s() const { return state().active_before_s + recorder_.active_s(); }

  // The candidate that the workspace holds after `changes` (path → hash, "" removed).
  Result<Submission> submission_of(const FileHashes& files) const;

 private:
  Status judge_start(std::stop_token stop);
  Status measure_machine(std::stop_token stop);
  Status take_turn(std::stop_token stop);
  Status run_calls(std::stop_token stop);
  Status add_candidate(const Submission& submission);
  Status evaluate(int64_t attempt_index, std::stop_token stop);
  Status run_evaluation(const OpenEvaluation& open, std::stop_token stop);
  Status promote_if_due(const std::string& candidate);
  Result<bool> at_limit();
  Result<EvaluationRequest> request_for(const OpenEvaluation& open);
  Status bring_files(const std::string& candidate, const std::filesystem::path& folder);
  Result<Verdict> keep_attachments(Verdict verdict, const std::filesystem::path& results);

  RunLock lock_;
  Recorder recorder_;
  LoadedTask task_;
  std::filesystem::path folder_;
  Workspace workspace_;
  std::unique_ptr<Executor> own_executor_;
  Executor* executor_;
  bool measure_noise_;  // only the real judge has noise worth measuring
  std::unique_ptr<Provider> own_provider_;
  Provider* provider_;
  bool unsafe_no_sandbox_;
  int64_t limit_known_at_ = 0;  // sequence of the verdict that at_limit_ was read from
  bool at_limit_ = false;
};

// Files of an attempt's candidate as they were added, from the log.
Result<FileHashes> files_of(const std::filesystem::path& run_folder, const Attempt& attempt);

// What an agent is told of an attempt: verdict, figures, reasons; nothing of hidden shapes.
std::string answer_about(const State& state, const Attempt& attempt, bool from_the_log);

}  // namespace marathon
