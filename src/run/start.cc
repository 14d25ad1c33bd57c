// Starting a run. Everything that can be wrong is found out before there is a log; until then the
// folder is scratch, and goes away with an error. From the log's first event on, nothing is ever
// taken back.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>

#include "base/clock.h"
#include "base/file.h"
#include "base/sandbox.h"
#include "run/open.h"

namespace marathon {

namespace fs = std::filesystem;

namespace {

constexpr int64_t max_script_bytes = 64LL << 20;

bool is_good_name(const std::string& name) {
  return !name.empty() && name.size() <= 100 && name.front() != '-' && name.front() != '.' &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) {
           return std::isalnum(c) || c == '-' || c == '_' || c == '.';
         });
}

Result<bool> make_new_folder(const fs::path& folder) {
  std::error_code code;
  const bool made = fs::create_directory(folder, code);
  if (code) return fail_errno("create folder " + folder.string(), code.value());
  return made;
}

// "<task>-<date>-<n>": making the folder decides who gets a number.
Result<std::string> free_name(const fs::path& home, const std::string& task) {
  std::string date = format_utc(wall_time_us()).substr(0, 10);
  std::erase(date, '-');
  for (int n = 1; n < 10'000; ++n) {
    const std::string name = fmt::format("{}-{}-{}", task, date, n);
    if (TRY(make_new_folder(run_folder(home, name)))) return name;
  }
  return fail(Fault::invalid, "this task has ten thousand runs of today: give this one a --name");
}

struct Place {
  std::string run;
  fs::path folder;
  RunLock lock;
};

// A folder that is ours. What a process left that died before its first event is cleared away.
Result<Place> claim_place(const fs::path& home, const std::string& wish, const std::string& task) {
  if (!wish.empty() && !is_good_name(wish))
    return fail(Fault::invalid,
                fmt::format("'{}' is no name for a run: use letters, digits, '-', '_' "
                            "and '.', and begin with a letter or digit",
                            wish));
  TRY(make_folders(home / "runs"));
  const std::string run = wish.empty() ? TRY(free_name(home, task)) : wish;
  const fs::path folder = run_folder(home, run);
  TRY(make_folders(folder));
  RunLock lock = TRY(RunLock::acquire(folder));
  std::error_code none;
  if (fs::exists(folder / "log.db", none)) {
    return fail(Fault::invalid,
                fmt::format("there is a run '{}' already: choose another --name, or "
                            "go on with: marathon resume {}",
                            run, run));
  }
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, none)) {
    if (entry.path().filename() != "run.lock") TRY(remove_tree(entry.path()));
  }
  return Place{run, folder, std::move(lock)};
}

Status sync_files(const fs::path& folder) {
  for (const fs::path& file : TRY(list_files(folder))) {
    const Fd fd(::open((folder / file).c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd || ::fsync(fd.get()) != 0) return fail_errno("sync " + (folder / file).string(), errno);
  }
  return {};
}

// "search" or "scripted:FILE"; the script is copied, so that a resume reads what the start read.
Status prepare_agent(const RunOptions& options, const fs::path& folder, RunStarted& started) {
  std::unique_ptr<Provider> own;
  if (options.provider) {
    started.agent = options.provider->name();
    started.agent_detail = options.provider->detail();
    return {};
  }
  if (options.agent == "search") {
    own = make_search_provider();
  } else if (options.agent.starts_with("scripted:")) {
    const fs::path script = options.agent.substr(std::string_view("scripted:").size());
    own = TRY(make_scripted_provider(script));  // its errors name the file that the person gave
    TRY(write_file_durable(folder / script_file, TRY(read_file(script, max_script_bytes))));
  } else {
    return fail(Fault::invalid,
                fmt::format("no agent '{}': there are search and scripted:FILE", options.agent));
  }
  started.agent = own->name();
  started.agent_detail = own->detail();
  return {};
}

Result<FileHashes> keep_start(const LoadedTask& task, Artifacts& artifacts) {
  const fs::path start = task.folder / task.task.files.start;
  FileHashes files;
  for (const fs::path& file : TRY(editable_files(task.task, start)))
    files[file.generic_string()] = TRY(artifacts.put(TRY(read_file(start / file))));
  return files;
}

// An event names each file, and holds 16 KB.
Status require_fitting(const RunStarted& started) {
  const size_t bytes = encode_payload(started).size();
  if (bytes <= static_cast<size_t>(max_inline_bytes) * 3 / 4) return {};
  return fail(Fault::invalid, fmt::format("the task has {} editable files, which is more than this "
                                          "version can keep track of (about 100): narrow [files] "
                                          "editable in task.toml",
                                          started.workspace.size()));
}

struct Prepared {
  LoadedTask task;
  RunStarted started;
  Artifacts artifacts;
};

Result<Prepared> prepare(const RunOptions& options, const LoadedTask& given, const Place& place) {
  RunStarted started;
  TRY(prepare_agent(options, place.folder, started));
  // The run's own copy of the task: what is judged later is what was there at the start.
  TRY(copy_tree(given.folder, place.folder / "task"));
  TRY(sync_files(place.folder / "task"));
  LoadedTask task = TRY(load_task(place.folder / "task"));
  Artifacts artifacts = TRY(Artifacts::open(place.folder));
  started.run = place.run;
  started.task_name = task.task.name;
  started.task_hash = task.hash;
  started.task_folder = given.folder.string();
  started.seed = options.seed;
  started.budget = merged(options.budget, task.task.budget);
  started.target = task.task.target;
  started.marathon_version = MARATHON_VERSION;
  started.host = host_name();
  started.judge = fmt::format(
      "sandbox: {}",
      to_string(options.unsafe_no_sandbox ? SandboxLevel::none : probe_sandbox().level));
  started.workspace = TRY(keep_start(task, artifacts));
  started.start_candidate = TRY(hash_of(started.workspace, artifacts));
  TRY(require_fitting(started));
  const Workspace workspace(place.folder);
  TRY(workspace.create());
  TRY(workspace.restore(started.workspace, artifacts));
  TRY(write_file_durable(place.folder / first_event_file, encode_payload(started)));
  return Prepared{std::move(task), std::move(started), std::move(artifacts)};
}

}  // namespace

Result<RunOutcome> start_run(const RunOptions& options, std::stop_token stop) {
  const LoadedTask given = TRY(load_task(options.task_folder));
  Place place = TRY(claim_place(options.home, options.name, given.task.name));
  Result<Prepared> ready = prepare(options, given, place);
  Result<Log> log =
      ready ? Log::create(place.folder, place.run) : Result<Log>(tl::unexpected(ready.error()));
  if (!log) {
    std::error_code none;
    if (!fs::exists(place.folder / "log.db", none)) (void)remove_tree(place.folder);
    return fail(log.error(), "no run was started");
  }
  Recorder recorder(*std::move(log), std::move(ready->artifacts), options.on_event,
                    options.on_trouble, stop);
  TRY(recorder.record(ready->started));
  Driver driver(std::move(place.lock), std::move(recorder), std::move(ready->task), place.folder,
                options, stop);
  return outcome_of(driver.drive(), driver, stop);
}

}  // namespace marathon
