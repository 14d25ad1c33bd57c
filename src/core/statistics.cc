#include "core/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace marathon {

double median(std::vector<double> values) {
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  const size_t middle = values.size() / 2;
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(middle),
                   values.end());
  const double upper = values[middle];
  if (values.size() % 2 == 1) return upper;
  const double lower =
      *std::max_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(middle));
  return (lower + upper) / 2;
}

double median_absolute_deviation(const std::vector<double>& values) {
  const double middle = median(values);
  std::vector<double> distances;
  distances.reserve(values.size());
  for (const double value : values) distances.push_back(std::abs(value - middle));
  return median(std::move(distances));
}

double geometric_mean(std::span<const double> values, std::span<const double> weights) {
  double sum = 0, total = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double weight = weights.empty() ? 1 : weights[i];
    sum += weight * std::log(values[i]);
    total += weight;
  }
  return total > 0 ? std::exp(sum / total) : std::numeric_limits<double>::quiet_NaN();
}

std::vector<double> without_outliers(const std::vector<double>& values, double limit) {
  const double middle = median(values), spread = median_absolute_deviation(values);
  if (!(spread > 0)) return values;
  std::vector<double> kept;
  for (const double value : values) {
    if (std::abs(0.6745 * (value - middle) / spread) <= limit) kept.push_back(value);
  }
  return kept;
}

namespace {

using Restart = std::vector<PairedSamples>;  // by shape

double median_of_resample(const std::vector<double>& values, Random& random) {
  std::vector<double> drawn(values.size());
  for (double& value : drawn) value = values[random.below(values.size())];
  return median(std::move(drawn));
}

// Log of the ratio of one restart, geometric mean over shapes.
double log_ratio(const Restart& restart, std::span<const double> weights, Random* random) {
  double sum = 0, total = 0;
  for (size_t shape = 0; shape < restart.size(); ++shape) {
    const PairedSamples& samples = restart[shape];
    const double above =
        random ? median_of_resample(samples.numerator_ns, *random) : median(samples.numerator_ns);
    const double below = random ? median_of_resample(samples.denominator_ns, *random)
                                : median(samples.denominator_ns);
    const double weight = weights.empty() ? 1 : weights[shape];
    sum += weight * std::log(above / below);
    total += weight;
  }
  return sum / total;
}

double quantile(const std::vector<double>& sorted, double q) {
  const double at = q * static_cast<double>(sorted.size() - 1);
  const size_t low = static_cast<size_t>(at);
  const size_t high = std::min(low + 1, sorted.size() - 1);
  return sorted[low] + (at - static_cast<double>(low)) * (sorted[high] - sorted[low]);
}

bool is_usable(const std::vector<Restart>& restarts) {
  if (restarts.empty() || restarts.front().empty()) return false;
  for (const Restart& restart : restarts) {
    for (const PairedSamples& samples : restart) {
      if (samples.numerator_ns.empty() || samples.denominator_ns.empty()) return false;
    }
  }
  return true;
}

}  // namespace

Interval bootstrap_ratio(const std::vector<std::vector<PairedSamples>>& restarts,
                         std::span<const double> weights, Random& random, int resamples) {
  if (!is_usable(restarts)) {
    const double none = std::numeric_limits<double>::quiet_NaN();
    return {none, none, none};
  }
  std::vector<double> center;
  center.reserve(restarts.size());
  for (const Restart& restart : restarts) center.push_back(log_ratio(restart, weights, nullptr));
  double sum = 0;
  for (const double value : center) sum += value;
  std::vector<double> means(static_cast<size_t>(resamples));
  for (double& mean : means) {
    double total = 0;
    for (size_t r = 0; r < restarts.size(); ++r) {
      total += log_ratio(restarts[random.below(restarts.size())], weights, &random);
    }
    mean = total / static_cast<double>(restarts.size());
  }
  std::sort(means.begin(), means.end());
  return {std::exp(sum / static_cast<double>(center.size())), std::exp(quantile(means, 0.025)),
          std::exp(quantile(means, 0.975))};
}

}  // namespace marathon
