#include "search_score.h"

#include <algorithm>
#include <map>

#include "core/statistics.h"

namespace marathon {

std::vector<double> expected_random_best(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t total = values.size();
  std::vector<double> expected;
  // P(max of n is the i-th smallest) = C(i-1, n-1) / C(total, n). Walking n upwards, the tail
  // product P(max <= i-th) = C(i, n) / C(total, n) is kept for each i and multiplied by (i-n) /
  // (total-n).
  std::vector<double> below(total);  // P(max of n draws is among the i+1 smallest)
  for (size_t i = 0; i < total; ++i)
    below[i] = static_cast<double>(i + 1) / static_cast<double>(total);
  for (size_t n = 1; n <= total; ++n) {
    double mean = 0;
    for (size_t i = 0; i < total; ++i) mean += values[i] * (below[i] - (i == 0 ? 0 : below[i - 1]));
    expected.push_back(mean);
    for (size_t i = 0; i < total; ++i) {
      const double left = static_cast<double>(i + 1) - static_cast<double>(n);
      below[i] = total == n ? 0 : below[i] * std::max(0.0, left) / static_cast<double>(total - n);
    }
  }
  return expected;
}

int64_t cutoff_of(const std::vector<double>& values, double fraction) {
  const double middle = median(values);
  const double optimum = *std::max_element(values.begin(), values.end());
  const std::vector<double> random = expected_random_best(values);
  for (size_t n = 0; n < random.size(); ++n) {
    if (random[n] >= middle + fraction * (optimum - middle)) return static_cast<int64_t>(n) + 1;
  }
  return static_cast<int64_t>(values.size());
}

std::vector<double> search_curve(const Task& task, const std::vector<MeasuredPoint>& space,
                                 uint64_t seed, int64_t evaluations) {
  std::map<Configuration, const MeasuredPoint*> lookup;
  for (const MeasuredPoint& point : space) lookup[point.configuration] = &point;
  std::vector<Trial> history;
  std::vector<double> curve;
  double best = 0;
  while (static_cast<int64_t>(curve.size()) < evaluations) {
    const std::optional<Proposal> proposal = propose(task, seed, history);
    if (!proposal) break;
    const auto found = lookup.find(proposal->configuration);
    const bool failed = found == lookup.end() || found->second->failed;
    const double speedup = failed ? 0 : found->second->speedup;
    history.push_back({proposal->configuration, speedup, 0.005, failed});
    best = std::max(best, speedup);
    curve.push_back(best);
  }
  while (static_cast<int64_t>(curve.size()) < evaluations) curve.push_back(best);
  return curve;
}

double score_of(const std::vector<double>& curve, const std::vector<double>& random, double optimum,
                int64_t cutoff) {
  double sum = 0;
  for (int64_t t = 0; t < cutoff; ++t) {
    const double expected = random[static_cast<size_t>(t)];
    sum +=
        optimum > expected ? (curve[static_cast<size_t>(t)] - expected) / (optimum - expected) : 1;
  }
  return sum / static_cast<double>(cutoff);
}

}  // namespace marathon
