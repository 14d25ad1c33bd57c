// Finding and ending descendants, those that called setsid or forked twice included.
#include <dirent.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <map>

#include "base/file.h"
#include "base/process.h"
#include "base/process_tree.h"

namespace marathon {

namespace {

int pid_of(const char* name) {
  int pid = 0;
  const char* end = name + std::strlen(name);
  const std::from_chars_result read = std::from_chars(name, end, pid);
  return read.ec == std::errc() && read.ptr == end ? pid : 0;
}

bool read_stat(int pid, ProcessStat& stat) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/stat", pid);
  const Fd fd(::open(path, O_RDONLY | O_CLOEXEC));
  if (!fd) return false;
  char text[1024];
  const ssize_t got = ::read(fd.get(), text, sizeof text - 1);
  if (got <= 0) return false;
  text[got] = '\0';
  // The name stands in brackets and may hold anything: the fields start after the last bracket.
  const char* at = std::strrchr(text, ')');
  if (!at) return false;
  char state = 0;
  int parent = 0;
  long long resident = 0;
  if (std::sscanf(
          at + 1,
          " %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %*u %*u %lld",
          &state, &parent, &resident) != 3) {
    return false;
  }
  stat = {pid, parent, state, static_cast<int64_t>(resident) * ::sysconf(_SC_PAGESIZE)};
  return true;
}

std::vector<ProcessStat> all_processes() {
  std::vector<ProcessStat> all;
  DIR* folder = ::opendir("/proc");
  if (!folder) return all;
  while (const dirent* entry = ::readdir(folder)) {
    ProcessStat stat;
    if (const int pid = pid_of(entry->d_name); pid > 0 && read_stat(pid, stat)) all.push_back(stat);
  }
  ::closedir(folder);
  return all;
}

// Kills through a pidfd, so that a reused pid is never hit.
bool kill_child(int pid, int expected_parent) {
  const Fd fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!fd) return false;
  ProcessStat now;
  if (!read_stat(pid, now) || now.parent != expected_parent) return false;
  return ::syscall(SYS_pidfd_send_signal, fd.get(), SIGKILL, nullptr, 0) == 0;
}

}  // namespace

std::vector<ProcessStat> descendants_of(int root, const std::vector<int>& without) {
  const std::vector<ProcessStat> all = all_processes();
  std::vector<ProcessStat> found;
  std::vector<int> front = {root};
  while (!front.empty()) {
    std::vector<int> next;
    for (const ProcessStat& stat : all) {
      const bool child = std::find(front.begin(), front.end(), stat.parent) != front.end();
      const bool kept = std::find(without.begin(), without.end(), stat.pid) != without.end();
      if (!child || kept) continue;
      found.push_back(stat);
      next.push_back(stat.pid);
    }
    front = std::move(next);
  }
  return found;
}

Status become_subreaper() {
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0)
    return fail_errno("prctl(PR_SET_CHILD_SUBREAPER)", errno);
  return {};
}

int64_t sweep_descendants(const std::vector<int>& keep) {
  int64_t killed = 0;
  // A process that forks faster than we look is caught in a later round: its new parent is us.
  for (int round = 0; round < 200; ++round) {
    std::vector<ProcessStat> left = descendants_of(::getpid(), keep);
    if (left.empty()) return killed;
    for (const ProcessStat& stat : left) {
      if (stat.state == 'Z') {
        if (stat.parent == ::getpid()) ::waitpid(stat.pid, nullptr, WNOHANG);
      } else if (kill_child(stat.pid, stat.parent)) {
        ++killed;
      }
    }
    ::usleep(1000);
  }
  return killed;
}

}  // namespace marathon
