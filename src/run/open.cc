// Resuming, pruning: what opens a run that is there already.
#include "run/open.h"

#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>

#include "base/file.h"
#include "run/payloads.h"

namespace marathon {

namespace fs = std::filesystem;

namespace {

Status require_log(const fs::path& folder, const std::string& run) {
  std::error_code none;
  if (fs::exists(folder / "log.db", none)) return {};
  return fail(Fault::not_found,
              fmt::format("there is no run '{}'; `marathon runs` lists those that "
                          "there are",
                          run));
}

// The log was made and the process died before its first event.
Status begin_if_due(Recorder& recorder, const fs::path& folder, const std::string& run) {
  if (recorder.state().start) return {};
  const Result<std::string> text = read_file(folder / first_event_file);
  const Result<Payload> first =
      text ? decode_payload("run.started", *text) : Result<Payload>(tl::unexpected(text.error()));
  if (!first || recorder.state().events > 0) {
    return fail(Fault::invalid, fmt::format("run '{}' was never started: start a new one with "
                                            "`marathon run TASK`, and remove {}",
                                            run, folder.string()));
  }
  TRY(recorder.record(*first));
  return {};
}

Status refuse_ended(const State& state, const std::string& run) {
  if (!state.ending) return {};
  return fail(Fault::invalid,
              fmt::format("run '{}' has ended ({}: {}) and cannot be resumed. Start a new one with "
                          "`marathon run TASK`, or have a candidate of your own judged with "
                          "`marathon attempt {} --from DIR --note TEXT`",
                          run, to_string(state.ending->ending), state.ending->evidence, run));
}

// What is judged now must be what was judged at the start.
Result<LoadedTask> frozen_task(const fs::path& folder, const State& state) {
  const auto changed = [&](const std::string& how) {
    return fail(Fault::corrupt,
                fmt::format("the run's copy of its task was changed since the start ({}): {}. Put "
                            "the files back, or start a new run",
                            (folder / "task").string(), how));
  };
  Result<LoadedTask> task = load_task(folder / "task");
  if (!task && task.error().fault != Fault::system) return changed(task.error().what);
  if (task && task->hash != state.start->task_hash)
    return changed("its hash is " + task->hash + " instead of " + state.start->task_hash);
  return task;
}

}  // namespace

std::string host_name() {
  utsname system{};
  ::uname(&system);
  return system.nodename;
}

Budget merged(const Budget& wish, const Budget& otherwise) {
  return {wish.evaluations > 0 ? wish.evaluations : otherwise.evaluations,
          wish.tool_calls > 0 ? wish.tool_calls : otherwise.tool_calls,
          wish.hours > 0 ? wish.hours : otherwise.hours, wish.usd > 0 ? wish.usd : otherwise.usd,
          wish.tokens > 0 ? wish.tokens : otherwise.tokens};
}

Result<std::unique_ptr<Driver>> open_run(const RunOptions& options, const std::string& run,
                                         const std::string& why, bool may_have_ended,
                                         std::stop_token stop) {
  const fs::path folder = run_folder(options.home, run);
  TRY(require_log(folder, run));
  RunLock lock = TRY(RunLock::acquire(folder));
  Recorder recorder(TRY(Log::open(folder)), TRY(Artifacts::open(folder)), options.on_event,
                    options.on_trouble, stop);
  TRY(begin_if_due(recorder, folder, run));
  if (!may_have_ended) TRY(refuse_ended(recorder.state(), run));
  LoadedTask task = TRY(frozen_task(folder, recorder.state()));
  const std::string torn = recorder.opened().torn;
  if (!torn.empty()) recorder.tell("the end of the log was lost: " + torn);
  TRY(recorder.record(RunResumed{::getpid(), host_name(), MARATHON_VERSION,
                                 cut_for_json(torn.empty() ? why : why + "; lost: " + torn, 2000),
                                 recorder.opened().lost_events}));
  return std::make_unique<Driver>(std::move(lock), std::move(recorder), std::move(task), folder,
                                  options, std::move(stop));
}

Result<RunOutcome> outcome_of(const Status& driven, const Driver& driver, std::stop_token stop) {
  const std::string& run = driver.state().start->run;
  if (driven) return RunOutcome{run, driver.state()};
  if (driven.error().fault == Fault::cancelled && stop.stop_requested())
    return RunOutcome{run, driver.state()};
  const std::string next =
      driver.state().ending ? "do it again" : "go on with: marathon resume " + run;
  return fail(driven.error().fault,
              fmt::format("{}. Run '{}' has lost nothing; when that is mended, {}",
                          driven.error().what, run, next));
}

Result<RunOutcome> resume_run(const RunOptions& options, const std::string& run,
                              std::stop_token stop) {
  const std::unique_ptr<Driver> driver = TRY(open_run(options, run, "resumed", false, stop));
  const Budget& now = driver->state().budget;
  const Budget wanted = merged(options.budget, now);
  if (wanted != now) TRY(driver->recorder().record(BudgetChanged{wanted, "person"}));
  return outcome_of(driver->drive(), *driver, stop);
}

Result<PruneReport> prune_run(const fs::path& home, const std::string& run, bool dry_run) {
  const fs::path folder = run_folder(home, run);
  TRY(require_log(folder, run));
  const RunLock lock = TRY(RunLock::acquire(folder));
  Log log = TRY(Log::open(folder));
  // A turn's long arguments are artifacts that no event of note names.
  const bool in_a_turn = std::ranges::any_of(log.state().pending_calls, are_beside);
  if (in_a_turn && !log.state().ending) {
    return fail(Fault::invalid,
                fmt::format("run '{}' stands in the middle of a turn: resume it until "
                            "its next evaluation, then prune",
                            run));
  }
  const PruneReport report = TRY(prune_artifacts(folder, log.state(), true));
  if (dry_run || report.removed_files == 0) return report;
  // The record first: what is absent without one counts as lost.
  TRY(log.append(ArtifactsPruned{report.removed_files, report.removed_bytes}));
  return prune_artifacts(folder, log.state(), false);
}

}  // namespace marathon
