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

namespace marathon {

namespace {

constexpr int64_t max_workspace_bytes = 1LL << 30;

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

Result<Worker> Worker::start(const WorkerOptions& options, const Arena& inputs,
                             int64_t output_bytes) {
  Arena outputs = TRY(Arena::make("marathon-outputs", output_bytes, false));
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return fail_errno("socketpair", errno);
  Fd ours(ends[0]);
  const Fd theirs(ends[1]);
  ProcessSpec spec;
  spec.argv = {options.program.string(), "serve",  "--lib",
               options.library.string(), "--core", std::to_string(options.core)};
  if (options.unsafe_no_sandbox) spec.argv.push_back("--unsafe-no-sandbox");
  spec.folder = options.temp_folder;
  spec.environment = {"LANG=C.UTF-8", "TZ=UTC"};
  spec.keep_bytes = 4096;
  spec.pass_fds = {{theirs.get(), worker_channel_fd},
                   {inputs.fd(), worker_inputs_fd},
                   {outputs.fd(), worker_outputs_fd}};
  return Worker(TRY(Process::start(spec)), std::move(ours), std::move(outputs));
}

std::optional<WorkerFailure> Worker::after_death(const std::string& doing) {
  process_.kill_and_sweep();
  const ProcessResult& result = process_.result();
  const std::string said = result.err.empty() ? "" : ": " + result.err.substr(0, 400);
  if (result.signal != 0 && result.signal != SIGKILL) {
    return WorkerFailure{VerdictKind::crashed,
                         fmt::format("{} while {}", signal_sentence(result.signal), doing)};
  }
  if (result.exit_code == 124)
    return WorkerFailure{VerdictKind::crashed, "it could not be loaded" + said};
  return WorkerFailure{VerdictKind::crashed,
                       fmt::format("the process ended by itself (exit {}) while {}{}",
                                   result.exit_code, doing, said)};
}

std::optional<WorkerFailure> Worker::stand_still() {
  if (const Status paused = process_.pause(); !paused) return after_death("answering");
  awake_ = false;
  return std::nullopt;
}

std::optional<WorkerFailure> Worker::exchange(double timeout_s, bool stop_after, WorkerReply& reply,
                                              WindowTimes* times) {
  request_->nonce = ++nonce_ ^ (secret_seed() << 16);
  if (!awake_ && !process_.resume()) return after_death("waking");
  awake_ = true;
  const Result<int64_t> cpu_before = cpu_time_ns(process_.pid());
  const int64_t start_ns = monotonic_ns();
  if (::send(channel_.get(), request_.get(), request_bytes(request_->ask), MSG_NOSIGNAL) < 0)
    return after_death("taking a request");
  pollfd ready{channel_.get(), POLLIN, 0};
  const int64_t deadline_ns = start_ns + static_cast<int64_t>(timeout_s * 1e9);
  while (true) {
    const int64_t left_ms = (deadline_ns - monotonic_ns()) / 1'000'000;
    const int count = ::poll(&ready, 1, static_cast<int>(std::max<int64_t>(left_ms, 0)));
    if (count > 0) break;
    if (count < 0 && errno == EINTR) continue;
    if (left_ms > 0) continue;
    process_.kill_and_sweep();
    return WorkerFailure{VerdictKind::timed_out,
                         fmt::format("a call took longer than {:.1f} s", timeout_s)};
  }
  const ssize_t got = ::recv(channel_.get(), &reply, sizeof reply, MSG_DONTWAIT);
  const int64_t end_ns = monotonic_ns();
  if (got == 0 || (got < 0 && errno != EAGAIN)) return after_death("running");
  // Stopped before anything that it wrote is looked at: an early answer gains nothing.
  if (stop_after) {
    if (std::optional<WorkerFailure> failure = stand_still()) return failure;
  }
  const Result<int64_t> cpu_after = cpu_time_ns(process_.pid());
  if (got != static_cast<ssize_t>(sizeof reply) || reply.nonce != request_->nonce) {
    return WorkerFailure{VerdictKind::suspicious,
                         "the channel to the judge held an answer that nobody asked for: forged"};
  }
  if (times && cpu_before && cpu_after) *times = {end_ns - start_ns, *cpu_after - *cpu_before};
  return std::nullopt;
}

std::optional<WorkerFailure> Worker::ask_workspace(const std::vector<int64_t>& dims,
                                                   int64_t& bytes) {
  *request_ = {};
  request_->ask = Ask::workspace;
  request_->dim_count = static_cast<int64_t>(dims.size());
  std::copy(dims.begin(), dims.end(), request_->dims);
  WorkerReply reply;
  if (std::optional<WorkerFailure> failure = exchange(10, true, reply, nullptr)) return failure;
  if (reply.value < 0 || reply.value > max_workspace_bytes) {
    return WorkerFailure{
        VerdictKind::crashed,
        fmt::format("it asks for a workspace of {} bytes; at most 1 GiB is given", reply.value)};
  }
  bytes = reply.value;
  return std::nullopt;
}

std::optional<WorkerFailure> Worker::prepare(const std::vector<int64_t>& dims, const Layout& layout,
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
  WorkerReply reply;
  return exchange(10, false, reply, nullptr);
}

std::optional<WorkerFailure> Worker::go(int32_t sets, double timeout_s, WindowTimes& times) {
  request_->ask = Ask::go;
  request_->sets = sets;
  WorkerReply reply;
  if (std::optional<WorkerFailure> failure =
          exchange(timeout_s * std::max(sets, 1), true, reply, &times))
    return failure;
  if (reply.code != 0) {
    return WorkerFailure{VerdictKind::crashed,
                         fmt::format("marathon_run returned {}: it refused the shape", reply.code)};
  }
  return std::nullopt;
}

}  // namespace marathon
