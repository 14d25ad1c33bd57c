// The run: recovery, loop, stop rule, tools, git workspace. The only writer. The one door.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "agent/agent.h"
#include "base/result.h"
#include "core/state.h"
#include "judge/judge.h"
#include "store/store.h"

namespace marathon {

// $MARATHON_HOME, else ${XDG_DATA_HOME:-~/.local/share}/marathon. Runs are in runs/, builds in
// cache/.
Result<std::filesystem::path> marathon_home();
std::filesystem::path run_folder(const std::filesystem::path& home, const std::string& run);
// Accepts a run's name, a unique prefix of it, or "--last". Error not_found lists what there is.
Result<std::string> find_run(const std::filesystem::path& home, const std::string& name);

struct RunOptions {
  std::filesystem::path home;
  std::filesystem::path task_folder;  // start only
  std::string name;                   // start only; empty: "<task>-<date>-<n>"
  uint64_t seed = 1;
  Budget budget;                 // what is 0 comes from the task
  std::string agent = "search";  // "search", "scripted:FILE", "llm"
  // With "llm": the model. With "scripted:FILE": a context of this window, as a model would have.
  // Resumed, null keeps what the log says; an llm needs it again, since the log has no key.
  std::optional<ModelSettings> model;
  bool unsafe_no_sandbox = false;
  Executor* executor = nullptr;  // null: local
  Provider* provider = nullptr;  // null: from `agent`
  // End as soon as the goal is met. Else the whole budget is used (stop_rule.h).
  bool stop_at_goal = false;
  // Called after every append, for the live line. Must not block.
  std::function<void(const State&, const Event&, const Payload&)> on_event;
  // What a model writes, as it comes in (Desk::live). Must not block.
  std::function<void(std::string_view kind, std::string_view text)> on_live;
  // What a person should know and is no event: the disk is full, the log's tail was lost. Null: to
  // standard error.
  std::function<void(const std::string&)> on_trouble;
};

struct RunOutcome {
  std::string run;
  State state;  // without an ending: the run stands still and can be resumed
};

// Starts a run and drives it to its one ending event. When a stop is requested it stands still
// where it is: nothing is written about what was going on, and `resume_run` goes on from there. The
// same holds after an Error that came behind the first event; its text says so.
Result<RunOutcome> start_run(const RunOptions& options, std::stop_token stop);
// With the task, agent and seed of the start. What is not 0 in `options.budget` replaces the run's.
// Error busy names who writes the run, invalid: it has ended, corrupt: its copy of the task
// changed.
Result<RunOutcome> resume_run(const RunOptions& options, const std::string& run,
                              std::stop_token stop);

// A person's own candidate, judged and logged like any other, also after the run's ending. Takes
// the editable files of `from`; those that are not there come from the best candidate.
struct AttemptOptions {
  std::filesystem::path home, from;
  std::filesystem::path from_result;  // instead of `from`: verdicts of judge_packed()
  std::string run, note, category = "person";
  bool unsafe_no_sandbox = false;
  Executor* executor = nullptr;
  std::function<void(const State&, const Event&, const Payload&)> on_event;
  std::function<void(const std::string&)> on_trouble;
};
Result<RunOutcome> attempt(const AttemptOptions& options, std::stop_token stop);
// Takes verdicts from elsewhere into the log, each once: what is there already is told to
// `on_trouble` and adds nothing. Which of them may become the best: docs/gpu.md.
Result<RunOutcome> attempt_from_result(const AttemptOptions& options, std::stop_token stop);

// The files of a candidate into `out`, which must be empty or absent. `candidate`: 6 or more digits
// of its hash; empty: the best.
Status write_candidate(const std::filesystem::path& home, const std::string& run,
                       const std::string& candidate, const std::filesystem::path& out);

// What a person changes of a run, recorded. While a process drives the run it is left in the run's
// folder, taken up before the next turn or call, and `taken` is false.
struct GoalWish {
  std::optional<double> speedup;
  std::optional<std::string> text;
  std::optional<bool> paused;
};
struct GoalReply {
  bool taken = false;
  State state;
};
Result<GoalReply> change_goal(const std::filesystem::path& home, const std::string& run,
                              const GoalWish& wish);

// Deletes artifacts that nothing of note needs and records it. Takes the RunLock.
Result<PruneReport> prune_run(const std::filesystem::path& home, const std::string& run,
                              bool dry_run);

}  // namespace marathon
