#include "run/recorder.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/clock.h"

namespace marathon {

namespace {

constexpr int64_t events_between_snapshots = 5000;
constexpr int io_attempts = 4;
constexpr int64_t first_wait_us = 50'000, longest_wait_us = 5'000'000;

void wait_unless_stopped(int64_t us, const std::stop_token& stop) {
  for (int64_t waited = 0; waited < us && !stop.stop_requested(); waited += 10'000)
    ::usleep(10'000);
}

}  // namespace

Recorder::Recorder(Log log, Artifacts artifacts, OnEvent on_event, std::stop_token stop)
    : log_(std::move(log)),
      artifacts_(std::move(artifacts)),
      on_event_(std::move(on_event)),
      stop_(std::move(stop)),
      started_us_(monotonic_us()) {}

double Recorder::active_s() const {
  return 1e-6 * static_cast<double>(monotonic_us() - started_us_);
}

Status Recorder::patiently(const std::function<Status()>& write, const char* what) {
  int64_t wait_us = first_wait_us;
  int io_errors = 0;
  while (true) {
    const Status written = write();
    if (written) return {};
    const Error& error = written.error();
    const bool full = error.fault == Fault::no_space;
    if (!full && (error.fault != Fault::system || ++io_errors >= io_attempts)) {
      return fail(error.fault,
                  fmt::format("{} could not be written: {}. What is on record is safe; when the "
                              "disk works again, go on with `marathon resume`",
                              what, error.what));
    }
    if (waited_s_ == 0)
      fmt::print(stderr, "storage: {}; the run stands still until there is room\n", error.what);
    const int64_t before_us = monotonic_us();
    wait_unless_stopped(wait_us, stop_);
    waited_s_ += 1e-6 * static_cast<double>(monotonic_us() - before_us);
    waited_for_ = error.what;
    if (stop_.stop_requested())
      return fail(Fault::cancelled, "stopped while waiting for room on the disk");
    wait_us = std::min(2 * wait_us, longest_wait_us);
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
  if (event.sequence % events_between_snapshots == 0)
    (void)log_.write_snapshot();  // only speed depends on it
  TRY(note_wait());
  return event;
}

Status Recorder::note_wait() {
  if (waited_s_ == 0) return {};
  const StorageWaited waited{waited_for_, waited_s_};
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
