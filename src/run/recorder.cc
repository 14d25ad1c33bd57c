#include "run/recorder.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>

#include "base/clock.h"

namespace marathon {

namespace {

constexpr int64_t events_between_snapshots = 5000;
constexpr int io_attempts = 4;
constexpr double first_wait_s = 0.05, longest_wait_s = 5;

}  // namespace

void wait_unless_stopped(double seconds, const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any nobody_notifies;
  std::unique_lock<std::mutex> lock(mutex);
  nobody_notifies.wait_for(lock, stop, std::chrono::duration<double>(seconds),
                           [] { return false; });
}

Recorder::Recorder(Log log, Artifacts artifacts, OnEvent on_event, OnTrouble on_trouble,
                   std::stop_token stop)
    : log_(std::move(log)),
      artifacts_(std::move(artifacts)),
      on_event_(std::move(on_event)),
      on_trouble_(std::move(on_trouble)),
      stop_(std::move(stop)),
      started_us_(monotonic_us()),
      next_wait_s_(first_wait_s) {}

double Recorder::active_s() const {
  return 1e-6 * static_cast<double>(monotonic_us() - started_us_) - all_waited_s_;
}

void Recorder::tell(const std::string& trouble) const {
  if (on_trouble_) return on_trouble_(trouble);
  fmt::print(stderr, "{}\n", trouble);
}

Status Recorder::stand_still(const Error& why) {
  // Told once a wait, not once a try.
  if (waited_s_ == 0) {
    tell(fmt::format("{}. The run stands still and goes on by itself; nothing on record is lost",
                     why.what));
  }
  const int64_t before_us = monotonic_us();
  wait_unless_stopped(next_wait_s_, stop_);
  const double waited_s = 1e-6 * static_cast<double>(monotonic_us() - before_us);
  waited_s_ += waited_s;
  all_waited_s_ += waited_s;
  waited_for_ = why.what;
  next_wait_s_ = std::min(2 * next_wait_s_, longest_wait_s);
  if (stop_.stop_requested()) return fail(Fault::cancelled, "stopped while waiting: " + why.what);
  return {};
}

Status Recorder::patiently(const std::function<Status()>& write, const char* what) {
  next_wait_s_ = first_wait_s;
  int io_errors = 0;
  while (true) {
    const Status written = write();
    if (written) return {};
    const Error& error = written.error();
    const bool io_error = error.fault == Fault::system && ++io_errors < io_attempts;
    if (error.fault != Fault::no_space && !io_error)
      return fail(error, fmt::format("{} could not be written", what));
    TRY(stand_still(error));
  }
}

Result<Event> Recorder::record(const Payload& payload, const std::string& causation_id) {
  Event event;
  TRY(patiently(
      [&]() -> Status {
        event = TRY(log_.append(payload, causation_id));
        return {};
      },
      "an event"));
  if (on_event_) on_event_(log_.state(), event, payload);
  if (event.sequence % events_between_snapshots == 0) write_snapshot();
  TRY(note_wait());
  return event;
}

Status Recorder::note_wait() {
  if (waited_s_ == 0) return {};
  StorageWaited waited{waited_for_.substr(0, 1000), waited_s_};
  waited_s_ = 0;
  TRY(record(waited));
  return {};
}

Result<std::string> Recorder::keep(std::string_view bytes) {
  std::string hash;
  TRY(patiently(
      [&]() -> Status {
        hash = TRY(artifacts_.put(bytes));
        return {};
      },
      "an artifact"));
  return hash;
}

}  // namespace marathon
