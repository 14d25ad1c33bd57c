#include "bench/worker_client.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/clock.h"
#include "base/random.h"
#include "bench/parallel.h"

namespace marathon {

namespace {

constexpr int64_t max_workspace_bytes = 1LL << 30;
constexpr int64_t start_limit_ns = 20'000'000'000, spin_ns = 50'000'000;
constexpr ssize_t no_answer = -2;

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// The judge must see the answer at once, too.
class Urgency {
 public:
  explicit Urgency(bool wanted) : on_(wanted && make_urgent(0)) {}
  Urgency(const Urgency&) = delete;
  Urgency& operator=(const Urgency&) = delete;
  ~Urgency() {
    if (on_) make_ordinary(0);
  }

 private:
  bool on_;
};

WorkerFailure forged() {
  return {VerdictKind::suspicious,
          "the channel to the judge held an answer that nobody asked for: forged"};
}

std::string signal_sentence(int signal) {
  switch (signal) {
    case SIGSEGV:
      return "a memory fault (SIGSEGV): an address out of bounds, or a write to an input, which is "
             "read-only";
    case SIGBUS:
      return "a bus error (SIGBUS)";
    case SIGILL:
      return "an illegal instruction (SIGILL): built for another CPU?";
    case SIGFPE:
      return "an arithmetic fault (SIGFPE): a division by zero?";
    case SIGABRT:
      return "abort (SIGABRT): an assertion or a failed allocation";
    case SIGSYS:
      return "a forbidden system call (SIGSYS): the sandbox ended it";
    case SIGXFSZ:
      return "writing a file (SIGXFSZ): the sandbox ended it";
    default:
      return fmt::format("signal {} ({})", signal, strsignal(signal));
  }
}

}  // namespace

Result<Worker> Worker::start(const WorkerOptions& options, int64_t input_bytes,
                             int64_t output_bytes) {
  Arena inputs = TRY(Arena::make("marathon-inputs", input_bytes, true));
  Arena outputs = TRY(Arena::make("marathon-outputs", output_bytes, false));
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return fail_errno("socketpair", errno);
  Fd ours(ends[0]);
  Fd theirs(ends[1]);
  ProcessSpec spec;
  spec.argv = {options.program.string(), "serve",  "--lib",
               options.library.string(), "--core", std::to_string(options.core)};
  if (options.apart) spec.argv.push_back("--spin");
  if (options.unsafe_no_sandbox) spec.argv.push_back("--unsafe-no-sandbox");
  spec.folder = options.temp_folder;
  spec.environment = {"LANG=C.UTF-8", "TZ=UTC"};
#if defined(__SANITIZE_ADDRESS__)
  // The candidate's signals are its own: no handler of the sanitizer may turn them into an exit.
  spec.environment.push_back(
      "ASAN_OPTIONS=handle_segv=0:handle_sigbus=0:handle_sigill=0:handle_sigfpe=0:handle_abort=0:"
      "detect_leaks=0");
#endif
  spec.keep_bytes = 4096;
  spec.pass_fds = {{theirs.get(), worker_channel_fd},
                   {inputs.fd(), worker_inputs_fd},
                   {outputs.fd(), worker_outputs_fd}};
  Worker worker(TRY(Process::start(spec)), std::move(ours), std::move(inputs), std::move(outputs),
                options);
  // Its end is the worker's alone, so that its death is seen at once.
  theirs.reset();
  worker.secret_ = secret_seed() << 16;
  TRY(worker.wait_for_jail());
  worker.wait_for_load();
  return worker;
}

Status Worker::wait_for_jail() {
  WorkerReply hello;
  const ssize_t got = receive(monotonic_ns() + start_limit_ns, hello);
  if (got == static_cast<ssize_t>(sizeof hello) && hello.nonce == hello_jailed) {
    level_ = static_cast<SandboxLevel>(hello.value);
    return {};
  }
  process_.kill_and_sweep();
  return fail(Fault::system,
              "marathon-worker could not be started in its jail: " +
                  (process_.result().err.empty() ? "it did not answer" : process_.result().err));
}

void Worker::wait_for_load() {
  WorkerReply hello;
  const int64_t limit_ns = static_cast<int64_t>(options_.load_timeout_s * 1e9);
  const ssize_t got = receive(monotonic_ns() + limit_ns, hello);
  if (got == no_answer) {
    process_.kill_and_sweep();
    dead_ = {VerdictKind::timed_out,
             fmt::format("loading it (its constructors) took longer than {:.1f} s",
                         options_.load_timeout_s)};
  } else if (got <= 0) {
    dead_ = after_death("being loaded");
  } else if (hello.nonce != hello_loaded) {
    dead_ = forged();
  } else {
    dead_ = stand_still();
  }
  // Only where the judge has another core: else an endless call would lock it out.
  urgent_ = !dead_ && options_.apart && make_urgent(process_.pid());
}

std::optional<WorkerFailure> Worker::after_death(const std::string& doing) {
  process_.kill_and_sweep();
  const ProcessResult& result = process_.result();
  const std::string said = result.err.empty() ? "" : ": " + result.err.substr(0, 400);
  if (result.signal == SIGKILL) {
    dead_ = {VerdictKind::crashed, fmt::format("the process was killed while {}: a forbidden "
                                               "system call, or the machine ran out of memory",
                                               doing)};
  } else if (result.signal != 0) {
    dead_ = {VerdictKind::crashed,
             fmt::format("{} while {}", signal_sentence(result.signal), doing)};
  } else if (result.exit_code == worker_gave_up) {
    dead_ = {VerdictKind::crashed, "it could not be loaded" + said};
  } else {
    dead_ = {VerdictKind::crashed, fmt::format("the process ended by itself (exit {}) while {}{}",
                                               result.exit_code, doing, said)};
  }
  return dead_;
}

std::optional<WorkerFailure> Worker::stand_still() {
  if (const Status paused = process_.pause(); !paused) return after_death("answering");
  // The kernel's account of a process is exact only while it does not run.
  const Result<int64_t> cpu = cpu_time_ns(process_.pid());
  if (!cpu) return after_death("answering");
  cpu_at_rest_ns_ = *cpu;
  return std::nullopt;
}

std::optional<WorkerFailure> Worker::wake() {
  if (dead_) return dead_;
  if (!process_.resume()) return after_death("waking");
  return std::nullopt;
}

// Bytes of the answer; 0 or less: the worker is gone; no_answer: the deadline has passed.
ssize_t Worker::receive(int64_t deadline_ns, WorkerReply& reply) {
  const int64_t spin_until_ns = options_.apart ? monotonic_ns() + spin_ns : 0;
  while (true) {
    const ssize_t got = ::recv(channel_.get(), &reply, sizeof reply, MSG_DONTWAIT);
    if (got >= 0) return got;
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return -1;
    const int64_t now_ns = monotonic_ns();
    if (now_ns < spin_until_ns) {
      relax();
      continue;
    }
    if (now_ns >= deadline_ns) return no_answer;
    pollfd ready{channel_.get(), POLLIN, 0};
    ::poll(&ready, 1, static_cast<int>((deadline_ns - now_ns) / 1'000'000 + 1));
  }
}

// Asks and waits; the worker is awake before and after.
std::optional<WorkerFailure> Worker::exchange(double limit_s, WorkerReply& reply) {
  request_->nonce = secret_ + ++nonce_;
  if (::send(channel_.get(), request_.get(), static_cast<size_t>(request_bytes(request_->ask)),
             MSG_NOSIGNAL) < 0)
    return after_death("taking a request");
  const ssize_t got = receive(monotonic_ns() + static_cast<int64_t>(limit_s * 1e9), reply);
  if (got == no_answer) {
    process_.kill_and_sweep();
    return dead_ = {VerdictKind::timed_out,
                    fmt::format("no answer within {:.1f} s: a call takes too long", limit_s)};
  }
  if (got <= 0) return after_death("running");
  if (got != static_cast<ssize_t>(sizeof reply) || reply.nonce != request_->nonce) {
    process_.kill_and_sweep();
    return dead_ = forged();
  }
  return std::nullopt;
}

std::optional<WorkerFailure> Worker::ask_workspace(const std::vector<int64_t>& dims,
                                                   int64_t& bytes) {
  *request_ = {};
  request_->ask = Ask::workspace;
  request_->dim_count = static_cast<int64_t>(dims.size());
  std::copy(dims.begin(), dims.end(), request_->dims);
  if (std::optional<WorkerFailure> failure = wake()) return failure;
  WorkerReply reply;
  if (std::optional<WorkerFailure> failure = exchange(options_.load_timeout_s, reply))
    return failure;
  if (std::optional<WorkerFailure> failure = stand_still()) return failure;
  if (reply.value < 0 || reply.value > max_workspace_bytes) {
    return WorkerFailure{
        VerdictKind::crashed,
        fmt::format("it asks for a workspace of {} bytes; 0 to 1 GiB can be had", reply.value)};
  }
  bytes = reply.value;
  return std::nullopt;
}

void Worker::fill_request(const std::vector<int64_t>& dims, const Layout& layout,
                          const ShapeSizes& sizes) {
  *request_ = {};
  request_->ask = Ask::prepare;
  request_->sets = layout.sets;
  request_->dim_count = static_cast<int64_t>(dims.size());
  request_->tensor_count = static_cast<int64_t>(sizes.tensor_bytes.size());
  request_->workspace_bytes = sizes.workspace_bytes;
  std::copy(dims.begin(), dims.end(), request_->dims);
  for (size_t set = 0; set < layout.tensors.size(); ++set) {
    std::copy(layout.tensors[set].begin(), layout.tensors[set].end(), request_->tensors[set]);
    request_->workspaces[set] = layout.workspaces[set];
  }
  for (size_t i = 0; i < sizes.is_output.size(); ++i)
    request_->is_output[i] = sizes.is_output[i] ? 1 : 0;
}

std::optional<WorkerFailure> Worker::run(const std::vector<int64_t>& dims, const Layout& layout,
                                         const ShapeSizes& sizes, int32_t sets, double limit_s,
                                         WindowTimes& times) {
  fill_request(dims, layout, sizes);
  if (std::optional<WorkerFailure> failure = wake()) return failure;
  WorkerReply reply;
  if (std::optional<WorkerFailure> failure = exchange(limit_s, reply)) return failure;
  request_->ask = Ask::go;
  request_->sets = sets;
  const int64_t cpu_rest_ns = cpu_at_rest_ns_;
  const Urgency urgency(urgent_);
  const int64_t start_ns = monotonic_ns();
  if (std::optional<WorkerFailure> failure = exchange(limit_s, reply)) return failure;
  const int64_t end_ns = monotonic_ns();
  // Stopped before anything that it wrote is looked at: an early answer gains nothing.
  if (std::optional<WorkerFailure> failure = stand_still()) return failure;
  times.wall_ns = end_ns - start_ns;
  times.cpu_ns = cpu_at_rest_ns_ - cpu_rest_ns;
  if (reply.code != 0) {
    return WorkerFailure{VerdictKind::crashed,
                         fmt::format("marathon_run returned {}: it refused the shape", reply.code)};
  }
  return std::nullopt;
}

}  // namespace marathon
