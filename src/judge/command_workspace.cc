#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "base/file.h"
#include "judge/command.h"

namespace marathon {

namespace fs = std::filesystem;

namespace {

constexpr int64_t max_processes = 256;
constexpr int64_t max_file_bytes = 1LL << 30;
constexpr int64_t max_scratch_bytes = 4LL << 30;  // all files of one implementation
constexpr int64_t max_kept_bytes = 512LL << 20;   // what put_back() copies before each step
constexpr int64_t max_kept_entries = 50'000;
constexpr int64_t kept_output_bytes = 128LL << 10;
constexpr std::chrono::milliseconds disk_interval{200};

bool is_same(const struct stat& a, const struct stat& b) {
  // The time of the last change cannot be set by a program: a file that was overwritten and put
  // back shows.
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino && a.st_size == b.st_size &&
         a.st_mode == b.st_mode && a.st_ctim.tv_sec == b.st_ctim.tv_sec &&
         a.st_ctim.tv_nsec == b.st_ctim.tv_nsec;
}

struct Size {
  int64_t bytes = 0, entries = 0;
};

// Blocks on the disk, not lengths: a file with a hole takes no room.
Size size_of(const fs::path& folder) {
  Size size;
  std::error_code code;
  fs::recursive_directory_iterator at(folder, fs::directory_options::skip_permission_denied, code);
  for (const fs::recursive_directory_iterator end; !code && at != end; at.increment(code)) {
    struct stat info {};
    ++size.entries;
    if (::lstat(at->path().c_str(), &info) == 0) size.bytes += int64_t{info.st_blocks} * 512;
  }
  return size;
}

// Stops a step that fills the disk: limits on one file do not stop a thousand of them.
class DiskGuard {
 public:
  DiskGuard(fs::path folder, std::stop_source& inner)
      : folder_(std::move(folder)), inner_(inner), thread_([this] { watch(); }) {}
  ~DiskGuard() {
    {
      const std::scoped_lock lock(mutex_);
      done_ = true;
    }
    ended_.notify_all();
    thread_.join();
  }
  DiskGuard(const DiskGuard&) = delete;
  DiskGuard& operator=(const DiskGuard&) = delete;
  bool filled() const { return filled_; }

 private:
  void watch() {
    std::unique_lock lock(mutex_);
    while (!ended_.wait_for(lock, disk_interval, [this] { return done_; })) {
      if (size_of(folder_).bytes <= max_scratch_bytes) continue;
      filled_ = true;
      inner_.request_stop();
      return;
    }
  }
  fs::path folder_;
  std::stop_source& inner_;
  std::atomic<bool> filled_ = false;
  bool done_ = false;
  std::mutex mutex_;
  std::condition_variable ended_;
  std::thread thread_;
};

Status copy_entry(const fs::directory_entry& entry, const fs::path& to);

// With links as links and times as they are (make looks at them); other special files are left out.
Status copy_folder(const fs::path& from, const fs::path& to) {
  TRY(make_folders(to));
  std::error_code code;
  fs::directory_iterator at(from, code);
  for (const fs::directory_iterator end; !code && at != end; at.increment(code))
    TRY(copy_entry(*at, to / at->path().filename()));
  if (code) return fail_errno("copy " + from.string(), code.value());
  return {};
}

Status copy_entry(const fs::directory_entry& entry, const fs::path& to) {
  std::error_code code;
  const fs::file_type type = entry.symlink_status(code).type();
  if (type == fs::file_type::directory) return copy_folder(entry.path(), to);
  if (type == fs::file_type::symlink) {
    fs::copy_symlink(entry.path(), to, code);
  } else if (type == fs::file_type::regular) {
    fs::copy_file(entry.path(), to, code);
    if (!code) fs::last_write_time(to, entry.last_write_time(code), code);
  }
  if (code) return fail_errno("copy " + entry.path().string(), code.value());
  return {};
}

}  // namespace

Status clear_place(const fs::path& folder, const fs::path& relative) {
  if (!is_safe_relative(relative))
    return fail(Fault::invalid, "a file outside of its folder: " + relative.string());
  fs::path at = folder;
  std::error_code code;
  for (const fs::path& part : relative.parent_path()) {
    at /= part;
    const fs::file_type type = fs::symlink_status(at, code).type();
    if (type == fs::file_type::directory) continue;
    if (type != fs::file_type::not_found) TRY(remove_tree(at));
    TRY(make_folders(at));
  }
  return remove_tree(folder / relative);
}

struct Workspace::FrozenFile {
  fs::path path;
  struct stat info {};
};

Workspace::Workspace(const LoadedTask& task, const EvaluationRequest& request, std::stop_token stop)
    : task_(task), request_(request), stop_(std::move(stop)) {}

Status Workspace::open(const std::vector<SourceFile>& editable, const fs::path& from) {
  scratch_.emplace(TRY(TempFolder::make("marathon-command")));
  work_ = scratch_->path() / "work";
  // The start's other files, then the candidate's editable ones: a candidate cannot bring new
  // graders.
  TRY(copy_tree(task_.folder / task_.task.files.start, work_));
  for (const fs::path& file : TRY(editable_files(task_.task, work_)))
    TRY(remove_tree(work_ / file));
  for (const SourceFile& file : editable) {
    TRY(clear_place(work_, file.path));
    TRY(write_file(work_ / file.path, file.content));
    std::error_code none;
    fs::permissions(work_ / file.path, fs::status(from / file.path, none).permissions(), none);
  }
  return write_parameters(editable);
}

// Parameters reach the task's commands as environment variables, one a name; the words of flags
// together as MARATHON_BUILD_WORDS.
Status Workspace::write_parameters(const std::vector<SourceFile>& editable) {
  environment_ = clean_environment(scratch_->path() / "tmp");
  const auto params = std::find_if(editable.begin(), editable.end(), [](const SourceFile& file) {
    return file.path == fs::path(params_file);
  });
  if (task_.task.parameters.empty()) return {};
  if (params == editable.end())
    return fail(Fault::invalid,
                "params.toml is missing: it needs one line `NAME = value` for each parameter");
  const Configuration configuration = TRY(parse_params_toml(task_.task, params->content));
  if (!is_valid(task_.task, configuration))
    return fail(Fault::invalid,
                "params.toml: the values break a constraint of the task ([search] constraints)");
  for (const auto& [name, value] : configuration)
    environment_.push_back(fmt::format("{}={}", name, value));
  std::string words;
  for (const std::string& word : build_words(task_.task, configuration))
    words += (words.empty() ? "" : " ") + word;
  environment_.push_back("MARATHON_BUILD_WORDS=" + words);
  return {};
}

Result<std::vector<Workspace::FrozenFile>> Workspace::put_frozen_back() {
  std::vector<FrozenFile> files;
  for (const fs::path& file : TRY(frozen_files(task_))) {
    TRY(clear_place(work_, file));
    TRY(write_file(work_ / file, TRY(read_file(task_.folder / file))));
    std::error_code none;
    fs::permissions(work_ / file, fs::status(task_.folder / file, none).permissions(), none);
    FrozenFile frozen{file, {}};
    if (::lstat((work_ / file).c_str(), &frozen.info) != 0)
      return fail_errno("stat " + (work_ / file).string(), errno);
    files.push_back(std::move(frozen));
  }
  return files;
}

Jail Workspace::jail() const {
  Jail jail = toolchain_jail();
  // What programs look for at their start; nothing of /etc that names people or keys.
  for (const char* file : {"/etc/passwd",        "/etc/group",
                           "/etc/nsswitch.conf", "/etc/localtime",
                           "/etc/mime.types",    "/etc/ssl/openssl.cnf",
                           "/etc/ssl/certs",     "/etc/fonts",
                           "/etc/magic",         "/etc/java-17-openjdk",
                           "/etc/python3",       "/etc/python3.11",
                           "/etc/perl",          "/proc/self",
                           "/proc/meminfo",      "/proc/stat",
                           "/proc/filesystems",  "/proc/version",
                           "/proc/sys/kernel",   "/proc/sys/vm",
                           "/dev/random",        "/dev/full",
                           "/sys/fs/cgroup"})
    jail.read_only.emplace_back(file);
  jail.read_write.push_back(work_);
  jail.read_write.push_back(scratch_->path() / "tmp");
  jail.allow_fork = jail.allow_exec = true;
  jail.max_file_bytes = max_file_bytes;
  jail.max_open_files = 1024;
  jail.max_cpu_s = static_cast<int64_t>(task_.task.command.timeout_s) * 4 + 10;
  return jail;
}

Result<StepResult> Workspace::step(const std::vector<std::string>& argv,
                                   const fs::path& output_file) {
  TRY(remove_tree(scratch_->path() / "tmp"));
  TRY(make_folders(scratch_->path() / "tmp"));
  const std::vector<FrozenFile> frozen = TRY(put_frozen_back());
  ProcessSpec spec;
  spec.argv = argv;
  spec.folder = work_;
  spec.environment = environment_;
  spec.timeout_s = task_.task.command.timeout_s;
  spec.max_processes = max_processes;
  spec.max_memory_bytes = task_.task.build.max_memory_bytes;
  spec.keep_bytes = kept_output_bytes;
  spec.output_file = output_file;
  StepResult done;
  std::stop_source inner;
  const std::stop_callback outer(stop_, [&] { inner.request_stop(); });
  const DiskGuard guard(scratch_->path(), inner);
  Result<ProcessResult> result = run_jailed(std::move(spec), jail(), scratch_->path(),
                                            request_.unsafe_no_sandbox, inner.get_token());
  if (!result && !(guard.filled() && result.error().fault == Fault::cancelled))
    return tl::unexpected(result.error());
  if (result) done.process = std::move(*result);
  done.disk_filled = guard.filled();
  for (const FrozenFile& file : frozen) {
    struct stat now {};
    if (::lstat((work_ / file.path).c_str(), &now) == 0 && is_same(now, file.info)) continue;
    done.broken_rule = fmt::format(
        "'{}' was touched while '{}' ran: files that grade must stay as the task has them",
        file.path.string(), argv.front());
    break;
  }
  return done;
}

Result<bool> Workspace::keep() {
  const Size size = size_of(work_);
  if (size.bytes > max_kept_bytes || size.entries > max_kept_entries) return false;
  TRY(copy_folder(work_, scratch_->path() / "kept"));
  return kept_ = true;
}

Status Workspace::put_back() {
  if (!kept_) return {};
  TRY(remove_tree(work_));
  return copy_folder(scratch_->path() / "kept", work_);
}

}  // namespace marathon
