// Starting, resuming, attempts, prune: what opens a run for writing.
#include "run/run.h"

#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>

#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "run/driver.h"

namespace marathon {

namespace fs = std::filesystem;

namespace {

std::string host_name() {
  utsname system{};
  ::uname(&system);
  return system.nodename;
}

bool is_good_name(const std::string& name) {
  return !name.empty() && name.size() <= 100 && name.front() != '-' && name.front() != '.' &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) {
           return std::isalnum(c) || c == '-' || c == '_' || c == '.';
         });
}

// "<task>-<date>-<n>": creating the folder decides who gets a number.
Result<std::string> reserve_name(const fs::path& home, const std::string& wish,
                                 const std::string& task) {
  TRY(make_folders(home / "runs"));
  std::error_code code;
  if (!wish.empty()) {
    if (!is_good_name(wish))
      return fail(Fault::invalid,
                  "a run's name has letters, digits, '-', '_' and '.' only: '" + wish + "'");
    if (fs::create_directory(run_folder(home, wish), code)) return wish;
    if (code) return fail_errno("create the run's folder", code.value());
    // A start that was killed before its first event leaves a folder without a log: the name is
    // free.
    if (!fs::exists(run_folder(home, wish) / "log.db")) return wish;
    return fail(
        Fault::invalid,
        fmt::format(
            "there is a run '{}' already; choose another --name or go on with: marathon resume {}",
            wish, wish));
  }
  const std::string date = format_utc(wall_time_us()).substr(0, 10);
  for (int n = 1; n < 10000; ++n) {
    const std::string name = fmt::format("{}-{}{}{}-{}", task, date.substr(0, 4), date.substr(5, 2),
                                         date.substr(8, 2), n);
    if (fs::create_directory(run_folder(home, name), code)) return name;
    if (code) return fail_errno("create the run's folder", code.value());
  }
  return fail(Fault::invalid, "this task has ten thousand runs of today; give a --name");
}

Budget merged(const Budget& wish, const Budget& of_task) {
  return {wish.evaluations > 0 ? wish.evaluations : of_task.evaluations,
          wish.tool_calls > 0 ? wish.tool_calls : of_task.tool_calls,
          wish.hours > 0 ? wish.hours : of_task.hours};
}

// "search" or "scripted:FILE"; the script is copied, so that a resume reads what the start read.
Status prepare_agent(const RunOptions& options, const fs::path& folder, RunStarted& started) {
  if (options.provider) {
    started.agent = options.provider->name();
    started.agent_detail = options.provider->detail();
    return {};
  }
  if (options.agent == "search") {
    const std::unique_ptr<Provider> provider = make_search_provider();
    started.agent = provider->name();
    started.agent_detail = provider->detail();
    return {};
  }
  if (options.agent.starts_with("scripted:")) {
    const std::string script = TRY(read_file(options.agent.substr(9)));
    TRY(write_file_durable(folder / "script.jsonl", script));
    const std::unique_ptr<Provider> provider = TRY(make_scripted_provider(folder / "script.jsonl"));
    started.agent = provider->name();
    started.agent_detail = provider->detail();
    return {};
  }
  return fail(Fault::invalid,
              fmt::format("no agent '{}': there are search and scripted:FILE", options.agent));
}

std::string judge_in_words(const RunOptions& options) {
  const SandboxStatus sandbox = probe_sandbox();
  return fmt::format("sandbox {}",
                     to_string(options.unsafe_no_sandbox ? SandboxLevel::none : sandbox.level));
}

Result<FileHashes> keep_start(const LoadedTask& task, Artifacts& artifacts) {
  FileHashes files;
  const fs::path start = task.folder / task.task.files.start;
  for (const fs::path& file : TRY(editable_files(task.task, start)))
    files[file.generic_string()] = TRY(artifacts.put(TRY(read_file(start / file))));
  return files;
}

// The run's own copy of the task: what is judged later is what was there at the start.
Result<LoadedTask> freeze_task(const fs::path& from, const fs::path& folder) {
  TRY(remove_tree(folder / "task"));
  TRY(copy_tree(from, folder / "task"));
  return load_task(folder / "task");
}

Result<LoadedTask> frozen_task(const fs::path& folder, const State& state) {
  LoadedTask task = TRY(load_task(folder / "task"));
  if (state.start && task.hash != state.start->task_hash) {
    return fail(Fault::corrupt, fmt::format("the run's copy of its task ({}) was changed since the "
                                            "start: what it would judge now is another task. "
                                            "Put the files back, or start a new run",
                                            (folder / "task").string()));
  }
  return task;
}

Result<std::string> hash_of(const FileHashes& files, const Artifacts& artifacts) {
  Sha256 hash;
  for (const auto& [path, content] : files) {
    hash.update_field(path);
    hash.update_field(TRY(artifacts.get(content)));
  }
  return hash.finish_hex();
}

struct Opened {
  std::string run;
  std::unique_ptr<Driver> driver;
};

Result<Opened> open_run(const RunOptions& options, const std::string& run, const std::string& why,
                        std::stop_token stop) {
  const fs::path folder = run_folder(options.home, run);
  RunLock lock = TRY(RunLock::acquire(folder));
  Log log = TRY(Log::open(folder));
  if (!log.report().torn.empty()) fmt::print(stderr, "{}\n", log.report().torn);
  if (!log.state().start) {
    return fail(Fault::invalid, fmt::format("run '{}' never started: it was ended before its first "
                                            "event. Start a new one with: marathon run TASK",
                                            run));
  }
  LoadedTask task = TRY(frozen_task(folder, log.state()));
  Recorder recorder(std::move(log), TRY(Artifacts::open(folder)), options.on_event, stop);
  Opened opened{run, std::make_unique<Driver>(std::move(lock), std::move(recorder), std::move(task),
                                              folder, options)};
  RunResumed resumed{::getpid(), host_name(), MARATHON_VERSION, why};
  TRY(opened.driver->recorder().record(resumed));
  return opened;
}

}  // namespace

Result<RunOutcome> start_run(const RunOptions& options, std::stop_token stop) {
  const LoadedTask given = TRY(load_task(options.task_folder));
  const std::string run = TRY(reserve_name(options.home, options.name, given.task.name));
  const fs::path folder = run_folder(options.home, run);
  RunLock lock = TRY(RunLock::acquire(folder));
  RunStarted started;
  if (const Status agent = prepare_agent(options, folder, started); !agent) {
    (void)remove_tree(folder);
    return tl::unexpected(agent.error());
  }
  LoadedTask task = TRY(freeze_task(given.folder, folder));
  Artifacts artifacts = TRY(Artifacts::open(folder));
  started.run = run;
  started.task_name = task.task.name;
  started.task_hash = task.hash;
  started.task_folder = given.folder.string();
  started.seed = options.seed;
  started.budget = merged(options.budget, task.task.budget);
  started.target = task.task.target;
  started.marathon_version = MARATHON_VERSION;
  started.host = host_name();
  started.judge = judge_in_words(options);
  started.workspace = TRY(keep_start(task, artifacts));
  started.start_candidate = TRY(hash_of(started.workspace, artifacts));
  TRY(Workspace(folder).create());
  Recorder recorder(TRY(Log::create(folder, run)), std::move(artifacts), options.on_event, stop);
  TRY(recorder.record(started));
  Driver driver(std::move(lock), std::move(recorder), std::move(task), folder, options);
  const Status driven = driver.drive(stop);
  if (!driven && driven.error().fault != Fault::cancelled) return tl::unexpected(driven.error());
  return RunOutcome{run, driver.state()};
}

Result<RunOutcome> resume_run(const RunOptions& options, const std::string& run,
                              std::stop_token stop) {
  {
    const Reader reader = TRY(Reader::open(run_folder(options.home, run)));
    const State state = TRY(reader.fold());
    if (state.ending) {
      return fail(Fault::invalid,
                  fmt::format("run '{}' has ended ({}): {}. Start a new run, or judge a candidate "
                              "of your own with: marathon attempt {} --from DIR --note TEXT",
                              run, to_string(state.ending->ending), state.ending->evidence, run));
    }
  }
  Opened opened = TRY(open_run(options, run, "resumed", stop));
  Driver& driver = *opened.driver;
  const Budget wanted = merged(options.budget, driver.state().budget);
  const Budget& now = driver.state().budget;
  if (wanted.evaluations != now.evaluations || wanted.tool_calls != now.tool_calls ||
      wanted.hours != now.hours) {
    TRY(driver.recorder().record(BudgetChanged{wanted, "person"}));
  }
  const Status driven = driver.drive(stop);
  if (!driven && driven.error().fault != Fault::cancelled) return tl::unexpected(driven.error());
  return RunOutcome{run, driver.state()};
}

Result<RunOutcome> attempt(const AttemptOptions& options, std::stop_token stop) {
  RunOptions as_run;
  as_run.home = options.home;
  as_run.unsafe_no_sandbox = options.unsafe_no_sandbox;
  as_run.executor = options.executor;
  as_run.on_event = options.on_event;
  Opened opened = TRY(open_run(as_run, options.run, "an attempt of a person", stop));
  Driver& driver = *opened.driver;
  TRY(driver.settle(stop));
  const Incumbent* best = driver.state().incumbent ? &*driver.state().incumbent : nullptr;
  FileHashes files =
      best ? TRY(files_of(run_folder(options.home, options.run),
                          driver.state().attempts[static_cast<size_t>(best->attempt - 1)]))
           : driver.state().start->workspace;
  const std::vector<fs::path> brought = TRY(editable_files(driver.task(), options.from));
  if (brought.empty())
    return fail(Fault::invalid, fmt::format("{} holds none of the editable files of the task",
                                            options.from.string()));
  for (const fs::path& file : brought) {
    files[file.generic_string()] = TRY(driver.recorder().keep(
        TRY(read_file(options.from / file, driver.task().rules.max_source_bytes * 4))));
  }
  Submission submission = TRY(driver.submission_of(files));
  submission.hypothesis = options.note;
  submission.category = options.category;
  submission.by = "person";
  TRY(driver.judge(submission, stop));
  TRY(driver.recorder().finish());
  return RunOutcome{options.run, driver.state()};
}

Status write_candidate(const fs::path& home, const std::string& run, const std::string& candidate,
                       const fs::path& out) {
  const fs::path folder = run_folder(home, run);
  std::error_code none;
  if (fs::exists(out, none) && !fs::is_empty(out, none))
    return fail(Fault::invalid, out.string() + " is not empty; name a new folder");
  const Reader reader = TRY(Reader::open(folder));
  const State state = TRY(reader.fold());
  const auto found = state.attempt_of.find(candidate);
  if (found == state.attempt_of.end())
    return fail(Fault::not_found, "the run has no candidate " + short_hash(candidate));
  const Artifacts artifacts = TRY(Artifacts::open(folder));
  return write_files(TRY(files_of(folder, state.attempts[static_cast<size_t>(found->second)])),
                     artifacts, out);
}

Result<PruneReport> prune_run(const fs::path& home, const std::string& run, bool dry_run) {
  const fs::path folder = run_folder(home, run);
  const RunLock lock = TRY(RunLock::acquire(folder));
  Log log = TRY(Log::open(folder));
  const PruneReport report = TRY(prune_artifacts(folder, log.state(), dry_run));
  if (!dry_run && report.removed_files > 0)
    TRY(log.append(ArtifactsPruned{report.removed_files, report.removed_bytes}));
  return report;
}

}  // namespace marathon
