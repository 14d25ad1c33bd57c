#include "bench/parallel.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <vector>

namespace marathon {

namespace {

const cpu_set_t& allowed() {
  static const cpu_set_t set = [] {
    cpu_set_t now;
    CPU_ZERO(&now);
    ::sched_getaffinity(0, sizeof now, &now);
    return now;
  }();
  return set;
}

// "0-1,8" as the kernel writes it.
cpu_set_t siblings_of(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  std::ifstream file(
      fmt::format("/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", core));
  int first = 0;
  while (file >> first) {
    int last = first;
    if (file.peek() == '-') {
      file.ignore();
      file >> last;
    }
    for (int i = first; i <= last && i < CPU_SETSIZE; ++i) CPU_SET(i, &set);
    if (file.peek() != ',') break;
    file.ignore();
  }
  return set;
}

cpu_set_t without(const cpu_set_t& all, const cpu_set_t& some) {
  cpu_set_t rest;
  CPU_ZERO(&rest);
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &all) && !CPU_ISSET(core, &some)) CPU_SET(core, &rest);
  }
  return rest;
}

Status without_exception(const std::function<Status(int64_t)>& work, int64_t i) {
  try {
    return work(i);
  } catch (const std::bad_alloc&) {
    return fail(Fault::no_space,
                "out of memory while the oracle works: free some, or make the task's shapes or "
                "measure.buffer_sets smaller");
  }
}

}  // namespace

Status in_parallel(int64_t count, const std::function<Status(int64_t)>& work) {
  const int64_t threads = std::min<int64_t>(count, allowed_cores());
  std::atomic<int64_t> next = 0;
  std::mutex mutex;
  Status first_error;
  const auto loop = [&] {
    for (int64_t i = next++; i < count; i = next++) {
      const Status done = without_exception(work, i);
      if (done) continue;
      const std::scoped_lock lock(mutex);
      if (first_error) first_error = done;
      next = count;
    }
  };
  std::vector<std::jthread> others;
  for (int64_t t = 1; t < threads; ++t) {
    others.emplace_back([&] {
      stand_anywhere();
      loop();
    });
  }
  loop();
  others.clear();
  return first_error;
}

int allowed_cores() { return std::max(1, CPU_COUNT(&allowed())); }

int last_allowed_core() {
  for (int core = CPU_SETSIZE - 1; core >= 0; --core) {
    if (CPU_ISSET(core, &allowed())) return core;
  }
  return -1;
}

bool stand_aside_of(int core) {
  cpu_set_t only;
  CPU_ZERO(&only);
  if (core >= 0) CPU_SET(core, &only);
  const cpu_set_t apart = without(allowed(), core >= 0 ? siblings_of(core) : only);
  const cpu_set_t other = without(allowed(), only);
  if (CPU_COUNT(&apart) > 0 && ::sched_setaffinity(0, sizeof apart, &apart) == 0) return true;
  if (CPU_COUNT(&other) > 0) ::sched_setaffinity(0, sizeof other, &other);
  return false;
}

void stand_on(int core) {
  allowed();  // remembered before the first change
  if (core < 0) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  ::sched_setaffinity(0, sizeof set, &set);
}

void stand_anywhere() {
  const cpu_set_t all = allowed();
  ::sched_setaffinity(0, sizeof all, &all);
}

bool make_urgent(int pid) {
  sched_param lowest{};
  lowest.sched_priority = 1;
  return ::sched_setscheduler(pid, SCHED_FIFO | SCHED_RESET_ON_FORK, &lowest) == 0;
}

void make_ordinary(int pid) {
  const sched_param none{};
  ::sched_setscheduler(pid, SCHED_OTHER, &none);
}

}  // namespace marathon
