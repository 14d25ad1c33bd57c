// Timing: candidate, incumbent and baseline in balanced random order, over restarts of their
// processes, by two clocks that the candidate cannot reach.
//
// A window is one call on each of `sets` buffer sets. Its time is the judge's wall clock from
// asking to answer. The second clock is the kernel's account of the worker's CPU time from one
// standstill to the next, asking and answering included. From both goes what an empty window of the
// same worker takes. Then they must agree: more wall than CPU means that something else ran (the
// window is thrown away); more CPU than wall that more than one thread worked, or that the
// candidate's code ran before the question or after the answer (suspicious).
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bench/session.h"
#include "core/statistics.h"

namespace marathon {

enum class Arm { candidate, incumbent, baseline };
inline constexpr size_t arm_count = 3;

// What happened in the windows of one arm.
struct ArmCount {
  int64_t windows = 0, disturbed = 0, overworked = 0;
};

// Samples in ns a call: [arm][restart][shape].
struct Measurement {
  std::vector<const ShapePlan*> shapes;
  std::vector<std::vector<std::vector<std::vector<double>>>> samples;
  // [shape]: of the candidate in the cache state that does not decide.
  std::vector<std::vector<double>> other_cache_ns;
  std::vector<double> slope;         // time of half the calls, doubled, over time of all of them
  std::vector<double> disagreement;  // |wall - CPU| / wall of each window that counts
  std::vector<ArmCount> counts{arm_count};
  int64_t restarts = 0;
  std::optional<ShapeFailure> failure;  // the candidate's
  std::string failed_at;                // as in name_in_words()
  std::string ambiguous;  // why it could not be measured; empty: it could
  bool sleeps = false;    // the candidate gave up its core in its calls; wall time counts
  bool decided_early = false;

  int64_t windows() const;
  int64_t discarded() const;
  // Ratio numerator / denominator over all listed shapes, or over one (index ≥ 0).
  Interval ratio(Arm numerator, Arm denominator, Random& random, int shape = -1) const;
  std::vector<double> all_samples(Arm arm, size_t shape) const;
};

// "shape N", or "a hidden shape": a name and dims that nobody is told.
std::string name_in_words(const Shape& shape);

// Half of the calls took so much of the time that work must be done outside of the calls, or one
// call works for others. Wide, because a window's constant part (cold code) is real. The other way
// round (less than half of the time) gains nobody anything: other work made a full window longer.
bool is_flat(double slope);

struct MeasureOptions {
  int64_t restarts = 5;
  bool race = false;   // the first restart is half as long: enough to see a clear loss
  bool extras = true;  // slope and the other cache state, in the last restart
  // Not the listed shapes but the hidden ones that are timed too: candidate and baseline only, a
  // few windows. On a GPU; a task for a CPU has none.
  bool hidden = false;
  // Called after each restart but the last with what is known; true: the rest cannot change the
  // verdict.
  std::function<bool(const Measurement&)> enough;
};

// `libraries`: by arm; an empty incumbent is left out.
Result<Measurement> measure(Session& session, const std::vector<std::filesystem::path>& libraries,
                            const MeasureOptions& options);

}  // namespace marathon
