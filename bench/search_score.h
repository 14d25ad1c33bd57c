// How good is a search? Its best-so-far curve on an exhaustively measured space against random
// search, whose expectation is calculated, not sampled.
//
// Score after Willemsen, Schoonhoven, Filipovič, Tørring, van Nieuwpoort and van Werkhoven, "A
// methodology for comparing optimization algorithms for auto-tuning" (FGCS 2024): at evaluation t,
//   score(t) = (F(t) - R(t)) / (optimum - R(t)),
// F: the search's best so far, R: random search's expected best so far; 0 is random search, 1 is
// the optimum at once. The score is its mean over t = 1 … cutoff, where random search has closed 95
// % of the distance from the space's median to its optimum.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "agent/agent.h"

namespace marathon {

struct MeasuredPoint {
  Configuration configuration;
  double speedup = 0;  // 0 when failed
  bool failed = false;
};

// Expected best of n draws without replacement, for n = 1 … values.size(). Failures count as 0.
std::vector<double> expected_random_best(std::vector<double> values);

// First n (1-based) at which the expected random best has closed `fraction` of median → optimum.
int64_t cutoff_of(const std::vector<double>& values, double fraction = 0.95);

// Best so far after each of `evaluations` proposals of the search on the measured space.
std::vector<double> search_curve(const Task& task, const std::vector<MeasuredPoint>& space,
                                 uint64_t seed, int64_t evaluations);

double score_of(const std::vector<double>& curve, const std::vector<double>& random, double optimum,
                int64_t cutoff);

}  // namespace marathon
