#include "app/signals.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>

#include "app/app.h"

namespace marathon {

SignalStop::SignalStop() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  std::signal(SIGPIPE, SIG_IGN);  // a closed pager is an error of a write, not the end of a run
  signals_ = Fd(::signalfd(-1, &set, SFD_CLOEXEC));
  wake_ = Fd(::eventfd(0, EFD_CLOEXEC));
  watcher_ = std::thread([this] { watch(); });
}

SignalStop::~SignalStop() {
  const uint64_t one = 1;
  if (::write(wake_.get(), &one, sizeof one) != static_cast<ssize_t>(sizeof one)) std::abort();
  watcher_.join();
}

void SignalStop::watch() {
  while (true) {
    pollfd ready[2] = {{signals_.get(), POLLIN, 0}, {wake_.get(), POLLIN, 0}};
    if (::poll(ready, 2, -1) < 0 && errno != EINTR) return;
    if (ready[1].revents != 0) return;
    signalfd_siginfo info{};
    if (::read(signals_.get(), &info, sizeof info) != static_cast<ssize_t>(sizeof info)) continue;
    if (source_.stop_requested()) ::_exit(exit_interrupted);
    std::fputs(
        "\nstopping: an evaluation in flight is dropped, and done again by resume; what is on "
        "record "
        "stays. Once more to leave at once\n",
        stderr);
    source_.request_stop();
  }
}

}  // namespace marathon
