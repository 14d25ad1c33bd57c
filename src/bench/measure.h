// Timing: candidate, incumbent and baseline in balanced random order, over restarts of their
// processes, by two clocks that the candidate cannot reach.
//
// A window is one call on each of `sets` buffer sets. Its time is the judge's wall clock from
// asking to answer, less what an empty window of the same worker takes. The kernel's accounting of
// the worker's CPU time must agree: more wall than CPU means that something else ran (the window is
// thrown away), more CPU than wall means that more than one thread worked (suspicious).
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bench/session.h"
#include "core/statistics.h"

namespace marathon {

enum class Arm { candidate, incumbent, baseline };

// Samples in ns a call: [arm][restart][listed shape].
struct Measurement {
  std::vector<const ShapePlan*> shapes;
  std::vector<std::vector<std::vector<std::vector<double>>>> samples;
  std::vector<std::vector<double>> other_ns;  // [shape]: the candidate in the other cache state
  std::vector<double> slope;         // constant part of a window over its time, candidate
  std::vector<double> disagreement;  // |wall - CPU| / wall of each window that counts
  int64_t windows = 0, discarded = 0, threaded = 0, restarts = 0;
  std::optional<ShapeFailure> failure;  // the candidate's
  std::string failed_shape;
  std::string ambiguous;  // why it could not be measured; empty: it could
  bool decided_early = false;

  // Ratio numerator / denominator over all listed shapes, or over one (index ≥ 0).
  Interval ratio(Arm numerator, Arm denominator, Random& random, int shape = -1) const;
  std::vector<double> all_samples(Arm arm, size_t shape) const;
};

// Called after each restart with what is known; true: stop, the rest cannot change the verdict.
using EnoughKnown = std::function<bool(const Measurement&)>;

// `libraries`: by arm; an empty incumbent is left out.
Result<Measurement> measure(Session& session, const std::vector<std::filesystem::path>& libraries,
                            int64_t restarts, const EnoughKnown& enough);

// Exclusive use of a core for measuring, machine-wide, by flock. Waits up to `limit_s`.
Result<Fd> lock_core(int core, double limit_s);

}  // namespace marathon
