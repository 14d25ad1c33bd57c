// The judge: build → rules → check → measure → profile → verdict. The one door.
//
// It returns facts and stores nothing. Trust: this room builds and decides; `marathon-judge`
// (bench/) owns inputs, oracle and clock; `marathon-worker` (bench/) runs what is not trusted, in
// the jail.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/sandbox.h"
#include "core/elsewhere.h"
#include "core/task.h"
#include "core/verdict.h"

namespace marathon {

struct LoadedTask {
  Task task;
  std::filesystem::path folder;  // absolute
  std::string hash;              // over every file of the task folder
};

// Reads task.toml and the files that it names. Every problem found goes to `diagnostics`; the
// Error's text holds them all, one a line.
Result<LoadedTask> load_task(const std::filesystem::path& folder,
                             std::vector<Diagnostic>* diagnostics = nullptr);

// Editable files of `folder` by path, and the hash of their content (what a Candidate is).
Result<std::vector<std::filesystem::path>> editable_files(const Task& task,
                                                          const std::filesystem::path& folder);
bool is_editable(const Task& task, const std::filesystem::path& file);  // relative
// Files that the task froze, by path in its folder; patterns are expanded.
Result<std::vector<std::filesystem::path>> frozen_files(const LoadedTask& task);
// The first editable file that is a link or another special file, in a sentence: what it leads to
// is no part of the candidate and of its hash.
Result<std::optional<std::string>> special_file(const Task& task,
                                                const std::filesystem::path& folder);
Result<std::string> candidate_hash(const Task& task, const std::filesystem::path& folder);

enum class Effort {
  quick,  // first listed shape and the stress shapes, few restarts: for exploring, never promotes
  full,
};

struct EvaluationRequest {
  std::filesystem::path task_folder;
  std::filesystem::path candidate_folder;
  std::filesystem::path incumbent_folder;  // empty: the baseline stands in
  double incumbent_speedup = 0;            // known from before; lets racing drop losers early
  Effort effort = Effort::full;
  bool race = true;  // stop early when the loss is certain
  bool profile_new_best = true;
  bool profile = false;  // whatever it is measured as
  uint64_t seed = 0;     // 0: a secret one
  double noise = 0;      // A/A half width; 0: the floor of the clock only
  int64_t core = -1;     // -1: the judge chooses
  bool unsafe_no_sandbox = false;
  std::filesystem::path cache_folder;   // builds by content and compiler; peaks by machine
  std::filesystem::path result_folder;  // gets build.txt, sanitize.txt …: what the verdict names
};

Json to_json(const EvaluationRequest& request);
Result<EvaluationRequest> request_from_json(const Json& json);

// Progress, as it happens: ("build", "g++ 1.4 s, cached", 1.4).
using StageSink =
    std::function<Status(const std::string& stage, const std::string& text, double seconds)>;

// Seam: where an evaluation runs.
class Executor {
 public:
  virtual ~Executor() = default;
  // An Error only when *we* could not work. The stop token ends all that was started.
  virtual Result<Verdict> evaluate(const EvaluationRequest& request, const StageSink& stage,
                                   std::stop_token stop) = 0;
};
std::unique_ptr<Executor> make_local_executor();
// `command` is the prefix that runs a program elsewhere, e.g. {"srun", "--gres=gpu:1"}.
std::unique_ptr<Executor> make_slurm_executor(std::vector<std::string> command);

// A/A: the baseline against itself through the whole protocol. The noise that `faster` must exceed.
struct NoiseReport {
  Interval ratio;
  double noise = 0;
  int64_t pairs = 0;
  std::string assumed;  // why it could not be measured; empty: it was
};
Result<NoiseReport> measure_noise(const EvaluationRequest& request, std::stop_token stop);
// Tries again while the machine is disturbed. One that is never quiet still judges, with an assumed
// noise that only large gains exceed.
Result<NoiseReport> measure_or_assume_noise(const EvaluationRequest& request, std::stop_token stop);

// Elsewhere: a folder with task and candidates goes to the machine that has the GPU, one file with
// verdicts and sources comes back. docs/gpu.md; formats: core/elsewhere.h.
struct PackPlan {
  struct Item {
    std::filesystem::path folder;
    std::string note, category;
  };
  std::filesystem::path task_folder, incumbent_folder;  // incumbent: may be empty
  std::vector<Item> candidates;
};
// Error invalid when there is something at `folder`.
Result<JudgeRequest> pack_request(const PackPlan& plan, const std::filesystem::path& folder);
// Error corrupt, naming the file, when one is not what was packed.
Result<JudgeRequest> open_request(const std::filesystem::path& folder);

// Judges what `result_file` does not have yet and renews it after each verdict: a kill costs the
// candidate in flight. `how`: effort, seed, sandbox, cache; the folders are the request's.
struct PackedJob {
  std::filesystem::path request_folder, result_file;
  EvaluationRequest how;
  Executor* executor = nullptr;                 // null: local, and the noise is measured first
  std::function<void(const std::string&)> say;  // a line for a person
};
Result<JudgeResults> judge_packed(const PackedJob& job, const StageSink& stage,
                                  std::stop_token stop);

// Mutation test of a task's own checker (design §6): every mutant must be refused on every listed
// shape, and the starting solution and the baseline must pass.
struct MutantResult {
  std::string mutant, shape;
  VerdictKind verdict;
  bool as_expected;
  std::string reason;
};
struct TaskCheck {
  std::vector<Diagnostic> diagnostics;
  std::vector<MutantResult> mutants;
  std::optional<Verdict> start;  // of the starting solution
  bool ok = false;
};
Result<TaskCheck> check_task(const EvaluationRequest& request, std::stop_token stop);

// What this machine can do, for `doctor`.
struct Finding {
  std::string topic, state, advice;
  bool good = true;
};  // advice: what to install
std::vector<Finding> examine_machine(const std::filesystem::path& cache_folder);

}  // namespace marathon
