// Robust statistics for measurements. Everything is pure; random numbers come in as an argument.
#pragma once

#include <span>
#include <vector>

#include "base/random.h"
#include "core/verdict.h"

namespace marathon {

double median(std::vector<double> values);                  // NaN for an empty list
double median_absolute_deviation(const std::vector<double>& values);
double geometric_mean(std::span<const double> values, std::span<const double> weights);

// Values whose modified Z-score (Iglewicz and Hoaglin 1993: 0.6745 (x - median) / MAD) is at most
// `limit`. With MAD 0 nothing is dropped.
std::vector<double> without_outliers(const std::vector<double>& values, double limit = 3.5);

// One shape's samples in one restart.
struct PairedSamples {
  std::vector<double> numerator_ns, denominator_ns;  // e.g. baseline and candidate
};

// Ratio numerator / denominator of medians, geometric mean over restarts (and over shapes with
// weights: restarts[r][s]), with a 95 % percentile bootstrap that resamples restarts and, inside
// each, the samples (Efron 1979; two-level because samples of one process are not independent).
Interval bootstrap_ratio(const std::vector<std::vector<PairedSamples>>& restarts,
                         std::span<const double> weights, Random& random, int resamples = 1000);

}  // namespace marathon
