// A/A: the baseline judged against itself, again and again. Whoever calls identical programs
// different cannot be believed when it calls different ones different.
#pragma once

#include "bench/request.h"

namespace marathon {

struct Pair {
  VerdictKind kind;  // faster, slower or same
  Interval gain;
  double seconds = 0;
};
// Of one listed shape, over all pairs.
struct PairShape {
  std::string name;
  std::vector<double> us;          // by pair: median time
  std::vector<double> half_width;  // by pair: of the ratio's interval round 1, at least 0.1 %
};
struct PairFigures {
  double noise = 0;  // that decided
  std::vector<Pair> pairs;
  std::vector<PairShape> shapes;

  int64_t called_different() const;
};

// `request.pairs` measurements, each with fresh processes, decided as an evaluation's first
// measurement is. Checks once, before. `request.noise` 0: the noise is measured first.
Result<PairFigures> measure_pairs(const BenchRequest& request, const Task& task);
Json to_json(const PairFigures& figures);

}  // namespace marathon
