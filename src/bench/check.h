// Correctness at every shape: fresh inputs, the fp64 oracle, bounds from the honest emulation.
#pragma once

#include <optional>

#include "bench/session.h"

namespace marathon {

struct CheckResult {
  std::vector<ShapeResult> shapes;      // as far as it went, in the task's order
  std::optional<ShapeFailure> failure;  // the first one; later shapes were not run
  std::string failed_shape, failed_set;
  std::string not_repeatable;    // a shape where the same inputs gave other bits;
                                 // empty: none
  std::string baseline_trouble;  // what the baseline did wrong at a listed
                                 // shape; empty: nothing
};

// Sets the plans' bounds, and for listed shapes how they will be measured. The baseline is run at
// the listed shapes beside it, for its errors and its time; whatever it does is not the candidate's
// failure. Empty: no baseline.
Result<CheckResult> check_candidate(Session& session, const std::filesystem::path& library,
                                    const std::filesystem::path& baseline);

}  // namespace marathon
