#include "base/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
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
#include "base/process_spawn.h"
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

}  // namespace

std::vector<int> live_children() {
  const std::scoped_lock lock(live_mutex);
  return live_pids;
}

std::mutex& birth_mutex() {
  static std::mutex mutex;
  return mutex;
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
      if (got < 0 && (errno == EAGAIN || errno == EINTR)) return true;
      if (got <= 0) {
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
    result.swept += sweep_strays();
    drain(out, out_text);
    drain(err, err_text);
    result.out = out_text.text();
    result.err = err_text.text();
    result.out_bytes = out_text.total();
    result.err_bytes = err_text.total();
  }

  bool send(int signal) const {
    return ::syscall(SYS_pidfd_send_signal, pidfd.get(), signal, nullptr, 0) == 0;
  }
  // It leads its own session, so the group is its own. Not after reap(): the number may be
  // another's.
  void signal_group(int signal) const {
    ::kill(-pid, signal);
    send(signal);
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
  {
    const std::scoped_lock lock(birth_mutex());
    impl.pid = TRY(plan.spawn(program, spec));
    remember(impl.pid);
  }
  impl.pidfd = Fd(static_cast<int>(::syscall(SYS_pidfd_open, impl.pid, 0)));
  if (!impl.pidfd) return fail_errno("pidfd_open (Linux 5.3 or newer has it)", errno);
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

// waitid(WSTOPPED) was refused: it waits for ever when the child stands still already, and a stop
// that the child gave itself answers for ours.
Status Process::pause() {
  constexpr int64_t patience_us = 10'000'000;
  if (impl_->ended) return fail(Fault::not_found, "the worker ended");
  impl_->send(SIGSTOP);
  const int64_t until_us = monotonic_us() + patience_us;
  for (int look = 0; !all_threads_stopped(impl_->pid); ++look) {
    pollfd end = {impl_->pidfd.get(), POLLIN, 0};
    if (::poll(&end, 1, 0) > 0) return fail(Fault::not_found, "the worker ended");
    if (monotonic_us() > until_us)
      return fail(Fault::timeout, "the worker does not stand still; it may hang in the kernel");
    // Standing still takes microseconds; only one that hangs is worth sleeping for.
    if (look < 200)
      ::sched_yield();
    else
      ::usleep(200);
  }
  return {};
}

Status Process::resume() {
  if (impl_->ended || !impl_->send(SIGCONT)) return fail(Fault::not_found, "the worker ended");
  return {};
}

// ---- to the end

namespace {

enum class Limit { none, time, processes, memory };

// A program may have more threads than processes, but not so many that the machine has no pid left.
constexpr int64_t threads_a_process = 16;

struct Watch {
  Limit limit = Limit::none;
  bool is_near = false;  // look again soon
};

Watch watch_tree(const ProcessSpec& spec, int pid) {
  std::vector<ProcessStat> tree = tree_of(pid);
  // Escaped grandchildren are ours by now (subreaper): they count as its own, unless they stand in
  // the session of another live child.
  const std::vector<int> live = live_children();
  for (const ProcessStat& stat : tree_of(::getpid(), live)) {
    if (stat.session == pid || std::find(live.begin(), live.end(), stat.session) == live.end())
      tree.push_back(stat);
  }
  tree.push_back(stat_of(pid));
  int64_t memory = 0, threads = 0;
  for (const ProcessStat& stat : tree) {
    memory += stat.resident_bytes;
    threads += stat.threads;
  }
  const int64_t count = static_cast<int64_t>(tree.size());
  const int64_t max = spec.max_processes;
  if (max > 0 && (count > max || threads > max * threads_a_process))
    return {Limit::processes, true};
  if (spec.max_memory_bytes > 0 && memory > spec.max_memory_bytes) return {Limit::memory, true};
  return {Limit::none, max > 0 && count * 4 > max};
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
  Watch watch;
  while (!impl_->ended && watch.limit == Limit::none && !stop.stop_requested()) {
    const int64_t left_us = deadline - monotonic_us();
    if (left_us <= 0) {
      watch.limit = Limit::time;
      break;
    }
    const int64_t look_ms = !watched ? 1000 : watch.is_near ? 2 : 20;
    impl_->poll_once(static_cast<int>(std::min<int64_t>(left_us / 1000 + 1, look_ms)), wake);
    if (watched && !impl_->ended) watch = watch_tree(spec, impl_->pid);
  }
  if (watch.limit == Limit::time) {
    impl_->signal_group(SIGTERM);
    const int64_t until = monotonic_us() + 500'000;
    while (!impl_->ended && monotonic_us() < until && !stop.stop_requested())
      impl_->poll_once(20, wake);
  }
  const bool stopped = !impl_->ended && stop.stop_requested();
  kill_and_sweep();
  if (stopped) return fail(Fault::cancelled, "stopped while " + spec.argv[0] + " was running");
  impl_->result.timed_out = watch.limit == Limit::time;
  impl_->result.too_many_processes = watch.limit == Limit::processes;
  impl_->result.too_much_memory = watch.limit == Limit::memory;
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

}  // namespace marathon
