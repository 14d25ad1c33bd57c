// Opening a run for writing: its folder, its lock, its log. Inside of run/ only.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "run/driver.h"

namespace marathon {

// What the first event will say, durable before there is a log: a process that dies between the two
// leaves a run that can be resumed.
inline constexpr const char* first_event_file = "start.json";

std::string host_name();

// What is 0 comes from `otherwise`.
Budget merged(const Budget& wish, const Budget& otherwise);

RunOptions as_run_options(const AttemptOptions& options);

// Lock, log, the frozen task, and `run.resumed` with `why`. Error busy names the holder; invalid
// when the run has ended and `may_have_ended` is false.
Result<std::unique_ptr<Driver>> open_run(const RunOptions& options, const std::string& run,
                                         const std::string& why, bool may_have_ended,
                                         std::stop_token stop);

// Where drive() ended, as a person is told it: a stop that was requested is no error.
Result<RunOutcome> outcome_of(const Status& driven, const Driver& driver, std::stop_token stop);

}  // namespace marathon
