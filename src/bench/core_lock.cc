#include "bench/core_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "base/clock.h"
#include "bench/request.h"

namespace marathon {

Result<Fd> lock_core(int core, double limit_s) {
  const std::string path = fmt::format("/tmp/marathon-core-{}.lock", core);
  constexpr int flags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW;
  // Without O_CREAT first: in a sticky folder a file of another user may be opened, but not with
  // that flag (fs.protected_regular).
  Fd fd(::open(path.c_str(), flags));
  if (!fd) fd = Fd(::open(path.c_str(), flags | O_CREAT, 0644));
  if (!fd) return fail_errno("the lock of core " + std::to_string(core) + " (" + path + ")", errno);
  const int64_t deadline_us = monotonic_us() + static_cast<int64_t>(limit_s * 1e6);
  bool told = false;
  while (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return fail_errno("lock " + path, errno);
    if (monotonic_us() > deadline_us) {
      return fail(Fault::busy, fmt::format("core {} has been measuring something else for {:.0f} "
                                           "s; wait for the other run or stop it",
                                           core, limit_s));
    }
    if (!told) {
      print_stage("measure",
                  fmt::format("waiting for core {}: another measurement runs on it", core), 0);
    }
    told = true;
    ::usleep(20'000);
  }
  return fd;
}

}  // namespace marathon
