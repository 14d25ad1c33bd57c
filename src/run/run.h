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
  std::string agent = "search";  // "search", "scripted:FILE"
  bool unsafe_no_sandbox = false;
  Executor* executor = nullptr;  // null: local
  Provider* provider = nullptr;  // null: from `agent`
  // Called after every append, for the live line. Must not block.
  std::function<void(const State&, const Event&, const Payload&)> on_event;
};

struct RunOutcome {
  std::string run;
  State state;
};

// Starts a run and drives it to its one ending event. A requested stop ends it with `interrupted`
// unless `pause_on_stop`: then it just stands still and `resume` continues it.
Result<RunOutcome> start_run(const RunOptions& options, std::stop_token stop);
Result<RunOutcome> resume_run(const RunOptions& options, const std::string& run,
                              std::stop_token stop);

// A person's own candidate, judged and logged like any other. Copies the editable files of `from`.
struct AttemptOptions {
  std::filesystem::path home, from;
  std::string run, note, category = "person";
  bool unsafe_no_sandbox = false;
  Executor* executor = nullptr;
  std::function<void(const State&, const Event&, const Payload&)> on_event;
};
Result<RunOutcome> attempt(const AttemptOptions& options, std::stop_token stop);

// The files of a candidate (default: the best) into `out`. Error when `out` is not empty.
Status write_candidate(const std::filesystem::path& home, const std::string& run,
                       const std::string& candidate, const std::filesystem::path& out);

// Deletes artifacts that nothing of note needs and records it. Takes the RunLock.
Result<PruneReport> prune_run(const std::filesystem::path& home, const std::string& run,
                              bool dry_run);

}  // namespace marathon
