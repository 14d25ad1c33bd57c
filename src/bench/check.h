// Correctness at every shape: fresh inputs, the fp64 oracle, bounds from the honest emulation.
#pragma once

#include <optional>

#include "bench/session.h"

namespace marathon {

struct CheckResult {
  std::vector<ShapeResult> shapes;      // as far as it went
  std::optional<ShapeFailure> failure;  // the first one; later shapes were not run
  std::string failed_shape, failed_set;
  bool repeatable = true;  // the same inputs gave the same bits
};

// Sets the plans' bounds, times and, for listed shapes, the number of sets and rounds.
// `quick`: the first listed shape and the stress shapes only.
Result<CheckResult> check_candidate(Session& session, const std::filesystem::path& library);

// Worst relative error of `library` at each listed shape, for comparison in the report.
Result<std::map<std::string, double>> errors_at_listed(Session& session,
                                                       const std::filesystem::path& library);

// The shapes that this request looks at.
bool is_looked_at(const Session& session, const ShapePlan& plan);

}  // namespace marathon
