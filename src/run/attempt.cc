// A person's own candidate, judged and logged like any other. Allowed after the ending too: the
// ledger stays open, the ending does not change.
#include <fmt/format.h>

#include <algorithm>

#include "base/file.h"
#include "run/open.h"
#include "run/payloads.h"

namespace marathon {

namespace fs = std::filesystem;

namespace {

constexpr int64_t max_file_bytes = 64LL << 20;
constexpr size_t max_named = 5;

// What the person's folder does not hold comes from the best candidate, else from the start.
Result<FileHashes> files_to_judge(Driver& driver, const fs::path& from,
                                  const std::vector<fs::path>& brought) {
  const Attempt* best = incumbent_of(driver.state());
  FileHashes files = best ? TRY(driver.files_of(*best)) : driver.state().start->workspace;
  for (const fs::path& file : brought) {
    files[file.generic_string()] =
        TRY(driver.recorder().keep(TRY(read_file(from / file, max_file_bytes))));
  }
  return files;
}

// A link would be judged as the best's file of that name, under the person's note.
Result<std::vector<fs::path>> brought_files(const Task& task, const fs::path& from) {
  if (const std::optional<std::string> special = TRY(special_file(task, from)))
    return fail(Fault::invalid, fmt::format("{}: {}", from.string(), *special));
  std::vector<fs::path> brought = TRY(editable_files(task, from));
  if (!brought.empty()) return brought;
  return fail(Fault::invalid, fmt::format("{} holds none of the task's editable files: {}",
                                          from.string(), fmt::join(task.files.editable, ", ")));
}

// A mistyped name must not go unseen: the best's file of the right name is judged in its place.
Status tell_left_out(const Task& task, const Recorder& recorder, const fs::path& from) {
  std::vector<std::string> left_out;
  for (const fs::path& file : TRY(list_files(from))) {
    if (!is_editable(task, file)) left_out.push_back(file.generic_string());
  }
  if (left_out.empty()) return {};
  const size_t more = left_out.size() - std::min(left_out.size(), max_named);
  if (more > 0) left_out.resize(max_named);
  recorder.tell(fmt::format("not taken, since the task lets nobody edit them: {}{}; editable: {}",
                            fmt::join(left_out, ", "),
                            more > 0 ? fmt::format(" and {} more", more) : "",
                            fmt::join(task.files.editable, ", ")));
  return {};
}

Status judge_person(Driver& driver, const AttemptOptions& options,
                    const std::vector<fs::path>& brought) {
  const int64_t since = driver.state().events;
  TRY(driver.settle());
  TRY(tell_left_out(driver.task(), driver.recorder(), options.from));
  Submission submission =
      TRY(driver.submission_of(TRY(files_to_judge(driver, options.from, brought))));
  submission.hypothesis = options.note;
  submission.category = options.category;
  submission.by = "person";
  const Judged judged = TRY(driver.judge(submission, since));
  if (!judged.from_log) return {};
  // No evaluation was spent, and the person's thought is not lost.
  TRY(driver.recorder().record(NoteAdded{
      cut_for_json(
          fmt::format("{} (attempt #{} again, from the log)", options.note, judged.attempt), 4000),
      "person"}));
  driver.recorder().tell(
      fmt::format("these very files were judged before, as attempt #{}: its "
                  "verdict stands, and no evaluation was spent",
                  judged.attempt));
  return {};
}

}  // namespace

RunOptions as_run_options(const AttemptOptions& options) {
  RunOptions run;
  run.home = options.home;
  run.unsafe_no_sandbox = options.unsafe_no_sandbox;
  run.executor = options.executor;
  run.on_event = options.on_event;
  run.on_trouble = options.on_trouble;
  return run;
}

Result<RunOutcome> attempt(const AttemptOptions& options, std::stop_token stop) {
  std::error_code none;
  if (!fs::is_directory(options.from, none))
    return fail(Fault::not_found, fmt::format("there is no folder '{}'", options.from.string()));
  const std::unique_ptr<Driver> driver =
      TRY(open_run(as_run_options(options), options.run, "an attempt of a person", true, stop));
  const std::vector<fs::path> brought = TRY(brought_files(driver->task(), options.from));
  return outcome_of(judge_person(*driver, options, brought), *driver, stop);
}

}  // namespace marathon
