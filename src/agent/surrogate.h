// What the measurements so far say about points that were not measured: a Gaussian process over
// log(score) with a kernel of main effects plus one of interactions, and on the same factorisation
// an estimate of the chance that a point fails. Inside of agent only.
//
// Refused: a forest (its variance is no guide with 20 observations) and a plain linear model (half
// of the score on landscapes where one parameter decides what the others mean).
#pragma once

#include <cstdint>
#include <vector>

#include "agent/space.h"

namespace marathon {

struct Observation {
  Point point;
  double y = 0;      // log(score); of a failure without meaning
  double noise = 0;  // standard deviation of y
  bool failed = false;
};

class Surrogate {
 public:
  struct Prediction {
    double mean = 0, deviation = 0;  // of y
    double failure = 0;              // 0 … 1
  };

  // Looks at 96 observations at most: the best and the newest. Needs one that did not fail.
  Surrogate(const Space& space, const std::vector<Observation>& observations);
  Prediction at(const Point& point) const;

 private:
  struct Settings {
    double additive;  // share of main effects; the rest is interaction
    double reach;     // how far an interaction carries, in changed parameters
    double noise;     // variance besides the measured one, of a variance of 1
  };

  void choose_observations(const std::vector<Observation>& observations);
  void normalise();
  void choose_settings();
  void choose_relevance(size_t count);
  void sum_pairs(size_t count);
  double likelihood(const Settings& settings, size_t count);  // leaves factor_ and weights_
  double kernel(double alike, double apart, const Settings& settings) const;

  const Space& space_;
  std::vector<Observation> observations_;
  std::vector<double> targets_;                  // normalised y, failures filled in
  std::vector<std::vector<double>> similarity_;  // by parameter and |difference| of indices
  std::vector<double> relevance_;                // of each parameter
  double relevance_sum_ = 0;
  double mean_ = 0, scale_ = 1, failure_rate_ = 0;
  Settings settings_{0.5, 2, 0.02};
  std::vector<double> alike_, apart_;  // of each pair: sums over the parameters
  std::vector<double> factor_;         // lower triangle, by rows
  std::vector<double> weights_, failure_weights_;
};

}  // namespace marathon
