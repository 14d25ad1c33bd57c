// Time, with its unit in every name.
#pragma once

#include <cstdint>
#include <string>

namespace marathon {

int64_t wall_time_us();  // since 1970, for people only: never used for order or for budgets
int64_t monotonic_us();  // since boot, stops while the machine is suspended
int64_t monotonic_ns();  // CLOCK_MONOTONIC_RAW, for measurement
std::string format_utc(int64_t wall_us);      // "2026-12-01T22:15:03Z"
std::string format_duration(double seconds);  // "850 ms", "12.3 s", "4 min 05 s", "3 h 12 min"

}  // namespace marathon
