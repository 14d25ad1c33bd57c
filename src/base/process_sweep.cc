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
#include <cstdio>
#include <cstring>
#include <functional>
#include <set>
#include <string>

#include "base/clock.h"
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

bool contains(const std::vector<int>& pids, int pid) {
  return std::find(pids.begin(), pids.end(), pid) != pids.end();
}

bool read_stat(const char* path, ProcessStat& stat) {
  const Fd fd(::open(path, O_RDONLY | O_CLOEXEC));
  if (!fd) return false;
  char text[1024];
  const ssize_t got = ::read(fd.get(), text, sizeof text - 1);
  if (got <= 0) return false;
  text[got] = '\0';
  // The name stands in brackets and may hold anything: the fields start after the last bracket.
  const char* at = std::strrchr(text, ')');
  if (!at) return false;
  long long threads = 0, started = 0, pages = 0;
  if (std::sscanf(at + 1,
                  " %c %d %d %d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %lld %*d %lld "
                  "%*u %lld",
                  &stat.state, &stat.parent, &stat.group, &stat.session, &threads, &started,
                  &pages) != 7) {
    return false;
  }
  stat.threads = threads;
  stat.started_ticks = started;
  stat.resident_bytes = static_cast<int64_t>(pages) * ::sysconf(_SC_PAGESIZE);
  return true;
}

bool read_stat(int pid, ProcessStat& stat) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/stat", pid);
  stat.pid = pid;
  return read_stat(path, stat);
}

// Calls `visit` with each number that is a name in the folder; false when there is no such folder.
bool for_each_number(const char* path, const std::function<void(int)>& visit) {
  DIR* folder = ::opendir(path);
  if (!folder) return false;
  while (const dirent* entry = ::readdir(folder)) {
    if (const int number = pid_of(entry->d_name); number > 0) visit(number);
  }
  ::closedir(folder);
  return true;
}

std::vector<ProcessStat> all_processes() {
  std::vector<ProcessStat> all;
  for_each_number("/proc", [&](int pid) {
    ProcessStat stat;
    if (read_stat(pid, stat)) all.push_back(stat);
  });
  return all;
}

// Appends the pids in the file; false when the kernel has no such file (CONFIG_PROC_CHILDREN).
bool read_children(int pid, int thread, std::vector<int>& children) {
  char path[96];
  std::snprintf(path, sizeof path, "/proc/%d/task/%d/children", pid, thread);
  const Fd fd(::open(path, O_RDONLY | O_CLOEXEC));
  if (!fd) return false;
  std::string text;
  char buffer[4096];
  for (ssize_t got; (got = ::read(fd.get(), buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<size_t>(got));
  for (const char* at = text.c_str(); *at;) {
    char* end = nullptr;
    const long child = std::strtol(at, &end, 10);
    if (end == at) break;
    if (child > 0) children.push_back(static_cast<int>(child));
    at = end;
    while (*at == ' ') ++at;
  }
  return true;
}

// ---- ending them

using Identity = std::pair<int, int64_t>;  // pid, start time

// Kills through a pidfd, so that a reused pid is never hit.
bool kill_one(const ProcessStat& victim) {
  const Fd fd(static_cast<int>(::syscall(SYS_pidfd_open, victim.pid, 0)));
  if (!fd) return false;
  ProcessStat now;
  if (!read_stat(victim.pid, now) || now.started_ticks != victim.started_ticks) return false;
  return ::syscall(SYS_pidfd_send_signal, fd.get(), SIGKILL, nullptr, 0) == 0;
}

// A signal to a group reaches those that are being born too: one call ends a bomb that stays in its
// group, while one by one it would be outrun. Only for groups of sessions that began below us.
void kill_groups(const std::vector<ProcessStat>& victims) {
  const int own_session = ::getsid(0);
  std::set<int> groups;
  for (const ProcessStat& victim : victims) {
    if (victim.session != own_session && victim.session > 1 && victim.group > 1)
      groups.insert(victim.group);
  }
  for (const int group : groups) ::kill(-group, SIGKILL);
}

// One look; how many are there that no round has met before.
int64_t end_those_found(const std::vector<int>& keep, std::set<Identity>& met, bool& none_left) {
  std::vector<ProcessStat> victims = descendants_of(::getpid(), keep);
  // An orphan in the session of a live child is that child's business.
  std::erase_if(victims, [&](const ProcessStat& stat) { return contains(keep, stat.session); });
  none_left = victims.empty();
  int64_t fresh = 0;
  for (const ProcessStat& victim : victims) {
    const bool dead = victim.state == 'Z' || victim.state == 'X';
    if (!dead && met.emplace(victim.pid, victim.started_ticks).second) ++fresh;
  }
  kill_groups(victims);
  for (const ProcessStat& victim : victims) {
    if (victim.state != 'Z') kill_one(victim);
    if (victim.parent == ::getpid()) ::waitpid(victim.pid, nullptr, WNOHANG);
  }
  return fresh;
}

int64_t sweep(const std::function<std::vector<int>()>& keep) {
  constexpr int64_t patience_us = 5'000'000;  // for one that hangs in the kernel and cannot die
  std::set<Identity> met;
  int64_t last_found_us = monotonic_us();
  while (monotonic_us() - last_found_us < patience_us) {
    bool none_left = false;
    int64_t fresh = 0;
    {
      const std::scoped_lock lock(birth_mutex());
      fresh = end_those_found(keep(), met, none_left);
    }
    if (none_left) break;
    if (fresh > 0) {
      last_found_us = monotonic_us();
    } else {
      ::usleep(500);  // they were told; dying takes them a moment
    }
  }
  return static_cast<int64_t>(met.size());
}

}  // namespace

std::vector<ProcessStat> descendants_of(int root, const std::vector<int>& without) {
  std::vector<ProcessStat> all = all_processes();
  const auto by_parent = [](const ProcessStat& a, const ProcessStat& b) {
    return a.parent < b.parent;
  };
  std::sort(all.begin(), all.end(), by_parent);
  std::vector<ProcessStat> found;
  std::vector<int> front = {root};
  while (!front.empty()) {
    ProcessStat key;
    key.parent = front.back();
    front.pop_back();
    const auto [first, last] = std::equal_range(all.begin(), all.end(), key, by_parent);
    for (auto child = first; child != last; ++child) {
      if (contains(without, child->pid)) continue;
      found.push_back(*child);
      front.push_back(child->pid);
    }
  }
  return found;
}

std::vector<ProcessStat> tree_of(int root, const std::vector<int>& without) {
  std::vector<ProcessStat> found;
  std::vector<int> front = {root};
  bool has_files = true;
  while (!front.empty() && has_files) {
    const int parent = front.back();
    front.pop_back();
    char path[64];
    std::snprintf(path, sizeof path, "/proc/%d/task", parent);
    std::vector<int> children;
    bool read_one = false;
    const bool there = for_each_number(
        path, [&](int thread) { read_one = read_children(parent, thread, children) || read_one; });
    // A parent that ended meanwhile has no files either; only the root tells what the kernel has.
    if (parent == root && there && !read_one) has_files = false;
    for (const int child : children) {
      ProcessStat stat;
      if (contains(without, child) || !read_stat(child, stat)) continue;
      found.push_back(stat);
      front.push_back(child);
    }
  }
  return has_files ? found : descendants_of(root, without);
}

ProcessStat stat_of(int pid) {
  ProcessStat stat;
  return read_stat(pid, stat) ? stat : ProcessStat();
}

bool all_threads_stopped(int pid) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/task", pid);
  bool all = true, any = false;
  for_each_number(path, [&](int thread) {
    char file[96];
    std::snprintf(file, sizeof file, "/proc/%d/task/%d/stat", pid, thread);
    ProcessStat stat;
    if (!read_stat(file, stat)) return;  // that thread has just ended
    any = true;
    all = all && (stat.state == 'T' || stat.state == 't');
  });
  return any && all;
}

Status become_subreaper() {
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0)
    return fail_errno("prctl(PR_SET_CHILD_SUBREAPER)", errno);
  return {};
}

int64_t sweep_descendants(const std::vector<int>& keep) {
  return sweep([&] { return keep; });
}

int64_t sweep_strays() { return sweep(live_children); }

}  // namespace marathon
