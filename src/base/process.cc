#include "base/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>

#include "base/clock.h"
#include "base/process_tree.h"

namespace marathon {

namespace fs = std::filesystem;

namespace {

// ---- who lives

std::mutex live_mutex;
std::vector<int> live_pids;

void remember(int pid) {
  const std::scoped_lock lock(live_mutex);
  live_pids.push_back(pid);
}
void forget(int pid) {
  const std::scoped_lock lock(live_mutex);
  std::erase(live_pids, pid);
}

// ---- bounded output

// First half from the head, the rest from the tail; what lies between is only counted.
class HeadTail {
 public:
  explicit HeadTail(int64_t keep) : half_(static_cast<size_t>(std::max<int64_t>(keep, 2) / 2)) {}

  void add(std::string_view bytes) {
    total_ += static_cast<int64_t>(bytes.size());
    const size_t to_head = std::min(bytes.size(), half_ - head_.size());
    head_.append(bytes.substr(0, to_head));
    tail_.append(bytes.substr(to_head));
    if (tail_.size() > 2 * half_ + (1 << 16)) tail_.erase(0, tail_.size() - half_);
  }
  int64_t total() const { return total_; }
  std::string text() const {
    if (tail_.size() <= half_ && head_.size() + tail_.size() == static_cast<size_t>(total_))
      return head_ + tail_;
    const std::string_view end =
        std::string_view(tail_).substr(tail_.size() - std::min(half_, tail_.size()));
    const int64_t left_out = total_ - static_cast<int64_t>(head_.size() + end.size());
    return head_ + fmt::format("\n… {} bytes left out …\n", left_out) + std::string(end);
  }

 private:
  size_t half_;
  std::string head_, tail_;
  int64_t total_ = 0;
};

struct Pipe {
  Fd read, write;
  static Result<Pipe> make() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return fail_errno("pipe", errno);
    Pipe pipe{Fd(ends[0]), Fd(ends[1])};
    ::fcntl(pipe.read.get(), F_SETFL, O_NONBLOCK);
    return pipe;
  }
};

// ---- spawning

class SpawnPlan {
 public:
  SpawnPlan() {
    posix_spawn_file_actions_init(&actions_);
    posix_spawnattr_init(&attributes_);
  }
  ~SpawnPlan() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;

  Status fill(const ProcessSpec& spec, int out, int err) {
    posix_spawn_file_actions_addopen(&actions_, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions_, out, 1);
    posix_spawn_file_actions_adddup2(&actions_, err, 2);
    int highest = 2;
    for (const auto& [ours, theirs] : spec.pass_fds) {
      // Through a high number first, so that no dup2 overwrites the source of a later one.
      held_.emplace_back(::fcntl(ours, F_DUPFD_CLOEXEC, 200));
      if (!held_.back()) return fail_errno("pass a file descriptor", errno);
      posix_spawn_file_actions_adddup2(&actions_, held_.back().get(), theirs);
      highest = std::max(highest, theirs);
    }
    for (int fd = 3; fd < highest; ++fd) {
      if (!is_passed(spec, fd)) posix_spawn_file_actions_addclose(&actions_, fd);
    }
    posix_spawn_file_actions_addclosefrom_np(&actions_, highest + 1);
    if (!spec.folder.empty()) posix_spawn_file_actions_addchdir_np(&actions_, spec.folder.c_str());
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setsigdefault(&attributes_, &all);
    posix_spawnattr_setflags(&attributes_,
                             POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    return {};
  }

  Result<int> spawn(const fs::path& program, const ProcessSpec& spec) {
    std::vector<char*> argv, environment;
    for (const std::string& word : spec.argv) argv.push_back(const_cast<char*>(word.c_str()));
    for (const std::string& word : spec.environment)
      environment.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    environment.push_back(nullptr);
    int pid = 0;
    const int code = posix_spawn(&pid, program.c_str(), &actions_, &attributes_, argv.data(),
                                 environment.data());
    if (code != 0) return fail_errno("start " + program.string(), code);
    return pid;
  }

 private:
  static bool is_passed(const ProcessSpec& spec, int fd) {
    return std::any_of(spec.pass_fds.begin(), spec.pass_fds.end(),
                       [&](const std::pair<int, int>& pair) { return pair.second == fd; });
  }

  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
  std::vector<Fd> held_;
};

Result<fs::path> program_of(const ProcessSpec& spec) {
  if (spec.argv.empty() || spec.argv[0].empty())
    return fail(Fault::invalid, "a command without a program");
  if (spec.argv[0].find('/') != std::string::npos) return fs::path(spec.argv[0]);
  if (std::optional<fs::path> found = find_program(spec.argv[0])) return *found;
  return fail(Fault::not_found,
              "no program '" + spec.argv[0] + "' in PATH; install it or give its path");
}

}  // namespace

std::vector<int> live_children() {
  const std::scoped_lock lock(live_mutex);
  return live_pids;
}

// ---- one child

struct Process::Impl {
  int pid = 0;
  Fd pidfd, out, err, file;
  ProcessResult result;
  HeadTail out_text, err_text;
  int64_t file_left = 0;
  bool ended = false;
  int64_t started_us = monotonic_us();

  explicit Impl(const ProcessSpec& spec)
      : out_text(spec.keep_bytes), err_text(spec.keep_bytes), file_left(spec.output_file_max) {}

  // Reads what is there; false once the stream is closed.
  bool drain(Fd& fd, HeadTail& text) {
    char buffer[1 << 16];
    for (int i = 0; i < 64 && fd; ++i) {
      const ssize_t got = ::read(fd.get(), buffer, sizeof buffer);
      if (got < 0) return errno == EAGAIN || errno == EINTR;
      if (got == 0) {
        fd.reset();
        return false;
      }
      const std::string_view bytes(buffer, static_cast<size_t>(got));
      text.add(bytes);
      keep_in_file(bytes);
    }
    return static_cast<bool>(fd);
  }

  void keep_in_file(std::string_view bytes) {
    if (!file || file_left <= 0) return;
    const size_t size = std::min(bytes.size(), static_cast<size_t>(file_left));
    const ssize_t written = ::write(file.get(), bytes.data(), size);
    file_left -=
        written > 0 ? written : file_left;  // a full disk costs the rest of the copy, not the run
  }

  // Waits for output, the end or `wake`. Returns false when neither came in time.
  bool poll_once(int timeout_ms, int wake) {
    pollfd fds[4] = {{out.get(), POLLIN, 0},
                     {err.get(), POLLIN, 0},
                     {ended ? -1 : pidfd.get(), POLLIN, 0},
                     {wake, POLLIN, 0}};
    const int ready = ::poll(fds, 4, timeout_ms);
    if (fds[0].revents) drain(out, out_text);
    if (fds[1].revents) drain(err, err_text);
    if (fds[2].revents) reap();
    return ready > 0;
  }

  void reap() {
    int status = 0;
    rusage usage{};
    if (ended || ::wait4(pid, &status, 0, &usage) != pid) return;
    ended = true;
    result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    result.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    result.user_s = static_cast<double>(usage.ru_utime.tv_sec) +
                    1e-6 * static_cast<double>(usage.ru_utime.tv_usec);
    result.system_s = static_cast<double>(usage.ru_stime.tv_sec) +
                      1e-6 * static_cast<double>(usage.ru_stime.tv_usec);
    result.peak_rss_bytes = usage.ru_maxrss * 1024;
    result.wall_s = 1e-6 * static_cast<double>(monotonic_us() - started_us);
    forget(pid);
  }

  // After the end: what is still in the pipes, then everything that it left behind.
  void finish() {
    // A grandchild may hold the pipes open for ever: wait briefly, sweep, read the rest.
    const int64_t until = monotonic_us() + 20'000;
    while ((out || err) && monotonic_us() < until) poll_once(5, -1);
    result.swept += sweep_descendants(live_children());
    drain(out, out_text);
    drain(err, err_text);
    result.out = out_text.text();
    result.err = err_text.text();
    result.out_bytes = out_text.total();
    result.err_bytes = err_text.total();
  }

  void signal_group(int signal) const {
    ::kill(-pid, signal);  // it leads its own session, so the group is its own
    ::syscall(SYS_pidfd_send_signal, pidfd.get(), signal, nullptr, 0);
  }
};

Result<Process> Process::start(const ProcessSpec& spec) {
  const fs::path program = TRY(program_of(spec));
  Pipe out = TRY(Pipe::make());
  Pipe err = TRY(Pipe::make());
  SpawnPlan plan;
  TRY(plan.fill(spec, out.write.get(), err.write.get()));
  Process process(new Impl(spec));
  Impl& impl = *process.impl_;
  if (!spec.output_file.empty()) {
    impl.file =
        Fd(::open(spec.output_file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    if (!impl.file) return fail_errno("create " + spec.output_file.string(), errno);
  }
  impl.pid = TRY(plan.spawn(program, spec));
  remember(impl.pid);
  impl.pidfd = Fd(static_cast<int>(::syscall(SYS_pidfd_open, impl.pid, 0)));
  impl.out = std::move(out.read);
  impl.err = std::move(err.read);
  return process;
}

Process::Process(Process&& other) noexcept : impl_(std::exchange(other.impl_, nullptr)) {}

Process::~Process() {
  if (!impl_) return;
  if (impl_->pid > 0 && !impl_->ended) kill_and_sweep();
  delete impl_;
}

int Process::pid() const { return impl_->pid; }
int Process::pidfd() const { return impl_->pidfd.get(); }
const ProcessResult& Process::result() const { return impl_->result; }

Result<bool> Process::wait(double timeout_s) {
  const int64_t until = monotonic_us() + static_cast<int64_t>(timeout_s * 1e6);
  while (!impl_->ended) {
    const int64_t left_us = until - monotonic_us();
    if (left_us <= 0) return false;
    impl_->poll_once(static_cast<int>(std::min<int64_t>(left_us / 1000 + 1, 1000)), -1);
  }
  impl_->finish();
  return true;
}

void Process::kill_and_sweep() {
  if (!impl_->ended) {
    impl_->signal_group(SIGKILL);
    while (!impl_->ended) impl_->poll_once(1000, -1);
  }
  impl_->finish();
}

Status Process::pause() {
  if (::kill(impl_->pid, SIGSTOP) != 0) return fail_errno("stop the worker", errno);
  siginfo_t info{};
  // WNOWAIT leaves an exit status for reap().
  if (::waitid(P_PID, static_cast<id_t>(impl_->pid), &info, WSTOPPED | WEXITED | WNOWAIT) != 0) {
    return fail_errno("wait for the worker to stand still", errno);
  }
  if (info.si_code != CLD_STOPPED) return fail(Fault::not_found, "the worker ended");
  ::waitid(P_PID, static_cast<id_t>(impl_->pid), &info, WSTOPPED);
  return {};
}

Status Process::resume() {
  if (::kill(impl_->pid, SIGCONT) != 0) return fail_errno("wake the worker", errno);
  return {};
}

// ---- to the end

namespace {

enum class Limit { none, time, processes, memory };

Limit broken_limit(const ProcessSpec& spec, int pid) {
  if (spec.max_processes <= 0 && spec.max_memory_bytes <= 0) return Limit::none;
  const std::vector<ProcessStat> tree = descendants_of(::getpid(), live_children());
  const std::vector<ProcessStat> below = descendants_of(pid);
  // Escaped grandchildren are ours by now (subreaper): they count as its own.
  int64_t memory = 0, count = 1 + static_cast<int64_t>(tree.size() + below.size());
  for (const ProcessStat& stat : tree) memory += stat.resident_bytes;
  for (const ProcessStat& stat : below) memory += stat.resident_bytes;
  if (spec.max_processes > 0 && count > spec.max_processes) return Limit::processes;
  if (spec.max_memory_bytes > 0 && memory > spec.max_memory_bytes) return Limit::memory;
  return Limit::none;
}

}  // namespace

Result<ProcessResult> run_process(const ProcessSpec& spec, std::stop_token stop) {
  const Fd wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  const std::stop_callback on_stop(stop, [&] {
    const uint64_t one = 1;
    if (::write(wake.get(), &one, sizeof one) < 0) return;
  });
  Process process = TRY(Process::start(spec));
  return process.run_to_end(spec, stop, wake.get());
}

Result<ProcessResult> Process::run_to_end(const ProcessSpec& spec, const std::stop_token& stop,
                                          int wake) {
  const int64_t deadline = impl_->started_us + static_cast<int64_t>(spec.timeout_s * 1e6);
  const bool watched = spec.max_processes > 0 || spec.max_memory_bytes > 0;
  Limit limit = Limit::none;
  while (!impl_->ended && limit == Limit::none) {
    if (stop.stop_requested()) {
      kill_and_sweep();
      return fail(Fault::cancelled, "stopped while " + spec.argv[0] + " was running");
    }
    const int64_t left_us = deadline - monotonic_us();
    if (left_us <= 0)
      limit = Limit::time;
    else
      impl_->poll_once(static_cast<int>(std::min<int64_t>(left_us / 1000 + 1, watched ? 20 : 1000)),
                       wake);
    if (limit == Limit::none && watched && !impl_->ended) limit = broken_limit(spec, impl_->pid);
  }
  if (limit == Limit::time) {
    impl_->signal_group(SIGTERM);
    const int64_t until = monotonic_us() + 500'000;
    while (!impl_->ended && monotonic_us() < until) impl_->poll_once(20, -1);
  }
  kill_and_sweep();
  impl_->result.timed_out = limit == Limit::time;
  impl_->result.too_many_processes = limit == Limit::processes;
  impl_->result.too_much_memory = limit == Limit::memory;
  return impl_->result;
}

Result<int64_t> cpu_time_ns(int pid) {
  clockid_t clock = 0;
  if (const int code = ::clock_getcpuclockid(pid, &clock); code != 0)
    return fail_errno("CPU clock of the worker", code);
  timespec now{};
  if (::clock_gettime(clock, &now) != 0) return fail_errno("CPU time of the worker", errno);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

// ---- surroundings

std::vector<std::string> clean_environment(const fs::path& temp_folder) {
  std::vector<std::string> environment = {"LANG=C.UTF-8", "TZ=UTC", "HOME=" + temp_folder.string(),
                                          "TMPDIR=" + temp_folder.string()};
  const char* path = std::getenv("PATH");
  environment.push_back(std::string("PATH=") + (path ? path : "/usr/local/bin:/usr/bin:/bin"));
  return environment;
}

std::optional<fs::path> find_program(const std::string& name) {
  if (name.find('/') != std::string::npos)
    return ::access(name.c_str(), X_OK) == 0 ? std::optional<fs::path>(name) : std::nullopt;
  const char* path = std::getenv("PATH");
  std::string_view rest = path ? path : "/usr/local/bin:/usr/bin:/bin";
  while (!rest.empty()) {
    const std::string_view folder = rest.substr(0, rest.find(':'));
    const fs::path candidate = fs::path(folder) / name;
    if (!folder.empty() && ::access(candidate.c_str(), X_OK) == 0 && fs::is_regular_file(candidate))
      return candidate;
    rest.remove_prefix(std::min(rest.size(), folder.size() + 1));
  }
  return std::nullopt;
}

fs::path own_folder() {
  std::error_code none;
  return fs::read_symlink("/proc/self/exe", none).parent_path();
}

}  // namespace marathon
