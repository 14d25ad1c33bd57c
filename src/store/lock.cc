#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "store/store.h"

namespace marathon {

namespace fs = std::filesystem;

namespace {

constexpr int64_t max_lock_bytes = 64LL * 1024;

std::string own_command() {
  Result<std::string> command = read_file("/proc/self/cmdline", max_lock_bytes);
  if (!command) return "marathon";
  std::replace(command->begin(), command->end(), '\0', ' ');
  while (!command->empty() && command->back() == ' ') command->pop_back();
  return command->substr(0, 300);
}

std::string own_host() {
  char name[256] = {};
  if (::gethostname(name, sizeof name - 1) != 0) return "unknown host";
  return name;
}

Status write_holder(int fd, const fs::path& path) {
  const std::string text = dump_json(Json{{"pid", ::getpid()},
                                          {"host", own_host()},
                                          {"started_at", wall_time_us()},
                                          {"command", own_command()}}) +
                           "\n";
  if (::ftruncate(fd, 0) != 0) return fail_errno("write " + path.string(), errno);
  // A few bytes for people: not worth a sync, and a full disk does not make the lock less ours.
  if (::pwrite(fd, text.data(), text.size(), 0) < 0 && errno != ENOSPC && errno != EDQUOT)
    return fail_errno("write " + path.string(), errno);
  return {};
}

struct Holder {
  int64_t pid = 0, started_at_us = 0;
  std::string host, command;
};

// None while the holder has not yet written who it is, or when what stands there is of an earlier
// one that was killed.
std::optional<Holder> read_holder(const fs::path& path) {
  const Result<std::string> text = read_file(path, max_lock_bytes);
  if (!text) return std::nullopt;
  const Result<Json> json = parse_json(*text);
  if (!json) return std::nullopt;
  const Holder holder{json_int(*json, "pid"), json_int(*json, "started_at"),
                      json_string(*json, "host"), json_string(*json, "command")};
  if (holder.pid <= 0) return std::nullopt;
  const bool here = holder.host == own_host();
  const bool gone = here && ::kill(static_cast<pid_t>(holder.pid), 0) != 0 && errno == ESRCH;
  return gone ? std::nullopt : std::optional<Holder>(holder);
}

tl::unexpected<Error> fail_held(const fs::path& run_folder) {
  const std::string run = run_folder.filename().string();
  std::optional<Holder> holder = read_holder(run_folder / "run.lock");
  for (int tries = 0; !holder && tries < 50; ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    holder = read_holder(run_folder / "run.lock");
  }
  if (!holder) {
    return fail(Fault::busy, fmt::format("run {} is being written by another process (see: fuser "
                                         "{}/run.lock): wait for it or stop it",
                                         run, run_folder.string()));
  }
  return fail(
      Fault::busy,
      fmt::format("run {} is being written by marathon (pid {} on {}, since {}, started as: "
                  "{}): wait for it, or stop it with: kill -INT {}",
                  run, holder->pid, holder->host, format_utc(holder->started_at_us),
                  holder->command, holder->pid));
}

}  // namespace

Result<RunLock> RunLock::acquire(const fs::path& run_folder) {
  const fs::path path = run_folder / "run.lock";
  Fd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!fd) return fail_errno("open " + path.string(), errno);
  while (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno == EWOULDBLOCK) return fail_held(run_folder);
    return fail_errno("lock " + path.string(), errno);
  }
  TRY(write_holder(fd.get(), path));
  return RunLock(fd.release());
}

RunLock::RunLock(RunLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

RunLock::~RunLock() {
  if (fd_ < 0) return;
  // The file stays: removing it would let two processes lock two files of one name.
  (void)!::ftruncate(fd_, 0);
  ::close(fd_);
}

}  // namespace marathon
