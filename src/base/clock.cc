#include "base/clock.h"

#include <fmt/format.h>

#include <cmath>
#include <ctime>

namespace marathon {

namespace {
int64_t read_ns(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}
}  // namespace

int64_t wall_time_us() { return read_ns(CLOCK_REALTIME) / 1000; }
int64_t monotonic_us() { return read_ns(CLOCK_MONOTONIC) / 1000; }
int64_t monotonic_ns() { return read_ns(CLOCK_MONOTONIC_RAW); }

std::string format_utc(int64_t wall_us) {
  const time_t seconds = static_cast<time_t>(wall_us / 1'000'000);
  tm parts{};
  gmtime_r(&seconds, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", parts.tm_year + 1900, parts.tm_mon + 1,
                     parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec);
}

std::string format_duration(double seconds) {
  if (seconds < 0.0005) return fmt::format("{:.0f} µs", seconds * 1e6);
  if (seconds < 0.9995) return fmt::format("{:.0f} ms", seconds * 1e3);
  if (seconds < 59.95) return fmt::format("{:.1f} s", seconds);
  const int64_t whole = std::llround(seconds);
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole / 60 % 60);
}

}  // namespace marathon
