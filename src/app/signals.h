// SIGINT and SIGTERM become a stop request; the second SIGINT ends the process at once.
#pragma once

#include <stop_token>
#include <thread>

#include "base/file.h"

namespace marathon {

// Blocks both signals for every thread that starts later and reads them from a signalfd.
// Make one at the start of main, before any other thread exists.
class SignalStop {
 public:
  SignalStop();
  ~SignalStop();
  SignalStop(const SignalStop&) = delete;
  SignalStop& operator=(const SignalStop&) = delete;

  std::stop_token token() const { return source_.get_token(); }

 private:
  void watch();

  std::stop_source source_;
  Fd signals_, wake_;
  std::thread watcher_;
};

}  // namespace marathon
