// The one place that appends: to the log first, then it is true. Inside of run/ only.
#pragma once

#include <functional>
#include <stop_token>
#include <string>

#include "base/result.h"
#include "store/store.h"

namespace marathon {

using OnEvent = std::function<void(const State&, const Event&, const Payload&)>;

class Recorder {
 public:
  Recorder(Log log, Artifacts artifacts, OnEvent on_event, std::stop_token stop);

  // Durable when it returns. A full disk is waited out: nothing is done that is not on record.
  // Error cancelled when a stop is requested meanwhile, system when the disk fails for good.
  Result<Event> record(const Payload& payload, const std::string& causation_id = "");
  // The same patience for a blob; returns its hash.
  Result<std::string> keep(std::string_view bytes);

  const State& state() const { return log_.state(); }
  const Artifacts& artifacts() const { return artifacts_; }
  const OpenReport& opened() const { return log_.report(); }
  double active_s() const;  // of this process
  Status finish() { return log_.write_snapshot(); }

 private:
  // Repeats `write` while the disk is full; `what` is told to the person meanwhile.
  Status patiently(const std::function<Status()>& write, const char* what);
  Status note_wait();

  Log log_;
  Artifacts artifacts_;
  OnEvent on_event_;
  std::stop_token stop_;
  int64_t started_us_;
  double waited_s_ = 0;  // not yet on record
  std::string waited_for_;
};

}  // namespace marathon
