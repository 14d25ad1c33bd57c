// The one place that appends: to the log first, then it is true. Inside of run/ only.
#pragma once

#include <functional>
#include <stop_token>
#include <string>

#include "base/result.h"
#include "store/store.h"

namespace marathon {

using OnEvent = std::function<void(const State&, const Event&, const Payload&)>;
using OnTrouble = std::function<void(const std::string&)>;

// Sleeps, but not longer than until a stop is requested.
void wait_unless_stopped(double seconds, const std::stop_token& stop);

class Recorder {
 public:
  // `on_trouble` is told what the run waits for; without one it goes to standard error.
  Recorder(Log log, Artifacts artifacts, OnEvent on_event, OnTrouble on_trouble,
           std::stop_token stop);

  // Durable when it returns. A full disk is waited out: nothing is done that is not on record.
  // Error cancelled when a stop is requested meanwhile, system when the disk fails for good.
  Result<Event> record(const Payload& payload, const std::string& causation_id = "");
  // The same patience for a blob; returns its hash.
  Result<std::string> keep(std::string_view bytes);
  // The same patience for any write. Repeats `write` while the disk is full, and a few times after
  // an I/O error; `what` is told to the person meanwhile.
  Status patiently(const std::function<Status()>& write, const char* what);
  // One step of that patience, longer each time. Error cancelled when a stop is requested.
  Status stand_still(const Error& why);

  const State& state() const { return log_.state(); }
  const Artifacts& artifacts() const { return artifacts_; }
  const OpenReport& opened() const { return log_.report(); }
  void tell(const std::string& trouble) const;
  // Of this process, without what it waited for the disk.
  double active_s() const;
  // Only speed depends on the snapshot: an error is nobody's concern.
  void write_snapshot() { (void)log_.write_snapshot(); }

 private:
  Status note_wait();

  Log log_;
  Artifacts artifacts_;
  OnEvent on_event_;
  OnTrouble on_trouble_;
  std::stop_token stop_;
  int64_t started_us_;
  double waited_s_ = 0;      // not yet on record
  double all_waited_s_ = 0;  // since the process began
  double next_wait_s_;
  std::string waited_for_;
};

}  // namespace marathon
