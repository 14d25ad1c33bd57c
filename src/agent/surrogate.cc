#include "agent/surrogate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace marathon {

namespace {

constexpr size_t most_observations = 96;
constexpr size_t decide_settings = 36;           // observations that decide: 36³ / 6 is cheap
constexpr size_t most_relevant_parameters = 24;  // with more, all weigh the same
constexpr double hopeless = -std::numeric_limits<double>::infinity();

size_t triangle(size_t row) { return row * (row + 1) / 2; }

// Four sums that do not wait for each other: twice as fast as one, and the same on every machine.
double dot(const double* a, const double* b, size_t size) {
  double sums[4] = {0, 0, 0, 0};
  size_t k = 0;
  for (; k + 4 <= size; k += 4) {
    for (size_t lane = 0; lane < 4; ++lane) sums[lane] += a[k + lane] * b[k + lane];
  }
  for (; k < size; ++k) sums[0] += a[k] * b[k];
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// In place; false when the matrix is not positive definite.
bool factorise(std::vector<double>& lower, size_t size) {
  for (size_t i = 0; i < size; ++i) {
    double* row = &lower[triangle(i)];
    for (size_t j = 0; j <= i; ++j) {
      const double* other = &lower[triangle(j)];
      const double sum = row[j] - dot(row, other, j);
      if (i != j) {
        row[j] = sum / other[j];
      } else if (sum <= 1e-10) {
        return false;
      } else {
        row[i] = std::sqrt(sum);
      }
    }
  }
  return true;
}

void solve_lower(const std::vector<double>& lower, std::vector<double>& x) {
  for (size_t i = 0; i < x.size(); ++i) {
    const double* row = &lower[triangle(i)];
    x[i] = (x[i] - dot(row, x.data(), i)) / row[i];
  }
}

void solve_upper(const std::vector<double>& lower, std::vector<double>& x) {
  for (size_t i = x.size(); i-- > 0;) {
    x[i] /= lower[triangle(i) + i];
    const double* row = &lower[triangle(i)];
    for (size_t k = 0; k < i; ++k) x[k] -= row[k] * x[i];
  }
}

size_t difference(char16_t a, char16_t b) { return a > b ? a - b : b - a; }

// exp(−difference / length) over the steps of an ordered parameter; a flag is like itself only.
std::vector<double> similarities(size_t values, bool ordered) {
  std::vector<double> result(values, 0);
  const double length = 0.3 + 0.35 * static_cast<double>(values - 1);
  for (size_t i = 0; i < values; ++i) {
    if (ordered || i == 0) result[i] = std::exp(-static_cast<double>(i) / length);
  }
  return result;
}

}  // namespace

Surrogate::Surrogate(const Space& space, const std::vector<Observation>& observations)
    : space_(space), relevance_(space.parameters(), 1.0) {
  for (size_t i = 0; i < space.parameters(); ++i) {
    similarity_.push_back(similarities(space.values_of(i), space.is_ordered(i)));
  }
  relevance_sum_ = static_cast<double>(space.parameters());
  choose_observations(observations);
  normalise();
  choose_settings();
  sum_pairs(observations_.size());
  // Repeated points without noise can defeat the factorisation; more noise always mends it.
  while (likelihood(settings_, observations_.size()) == hopeless) settings_.noise *= 4;
  failure_weights_.clear();
  for (const Observation& observation : observations_) {
    failure_weights_.push_back((observation.failed ? 1 : 0) - failure_rate_);
  }
  solve_lower(factor_, failure_weights_);
  solve_upper(factor_, failure_weights_);
}

// The best and the newest by turns, so that the first few stand for all.
void Surrogate::choose_observations(const std::vector<Observation>& observations) {
  std::vector<size_t> by_merit(observations.size());
  std::iota(by_merit.begin(), by_merit.end(), size_t{0});
  std::ranges::stable_sort(by_merit, [&](size_t a, size_t b) {
    if (observations[a].failed != observations[b].failed) return observations[b].failed;
    return !observations[a].failed && observations[a].y > observations[b].y;
  });
  std::vector<bool> taken(observations.size(), false);
  const size_t wanted = std::min(observations.size(), most_observations);
  size_t best = 0, newest = observations.size();
  while (observations_.size() < wanted) {
    const bool merit = observations_.size() % 2 == 0;
    const size_t next = merit ? by_merit[best++] : --newest;
    if (taken[next]) continue;
    taken[next] = true;
    observations_.push_back(observations[next]);
  }
}

void Surrogate::normalise() {
  std::vector<double> good;
  for (const Observation& observation : observations_) {
    if (!observation.failed) good.push_back(observation.y);
  }
  const double count = static_cast<double>(std::max<size_t>(good.size(), 1));
  mean_ = std::accumulate(good.begin(), good.end(), 0.0) / count;
  double squares = 0;
  for (const double y : good) squares += (y - mean_) * (y - mean_);
  scale_ = std::max(std::sqrt(squares / count), 1e-4);
  failure_rate_ = 1 - static_cast<double>(good.size()) / static_cast<double>(observations_.size());
  std::ranges::sort(good);
  // A failure says nothing about speed; where it stands nothing good should be expected either.
  const double poor = good.empty() ? 0 : (good[good.size() / 4] - mean_) / scale_;
  for (const Observation& observation : observations_) {
    targets_.push_back(observation.failed ? poor : (observation.y - mean_) / scale_);
  }
}

void Surrogate::choose_settings() {
  const size_t count = std::min(observations_.size(), decide_settings);
  if (count < 4) return;
  sum_pairs(count);
  double best = hopeless;
  for (const double additive : {0.1, 0.4, 0.7, 0.92}) {
    for (const double reach : {1.5, 4.0}) {
      for (const double noise : {0.002, 0.02, 0.1}) {
        const Settings settings = {additive, reach, noise};
        const double value = likelihood(settings, count);
        if (value <= best) continue;
        best = value;
        settings_ = settings;
      }
    }
  }
  if (count >= 8 && space_.parameters() <= most_relevant_parameters) choose_relevance(count);
}

// One pass over the parameters: does the data speak for weighing this one less, or more?
void Surrogate::choose_relevance(size_t count) {
  double best = likelihood(settings_, count);
  for (size_t i = 0; i < relevance_.size(); ++i) {
    double chosen = 1;
    for (const double relevance : {0.1, 0.35, 2.5, 7.0}) {
      const auto weigh = [&](double from, double to) {
        relevance_sum_ += to - from;
        size_t pair = 0;
        for (size_t row = 0; row < count; ++row) {
          for (size_t column = 0; column < row; ++column, ++pair) {
            const double similar = similarity_[i][difference(observations_[row].point[i],
                                                             observations_[column].point[i])];
            alike_[pair] += (to - from) * similar;
            apart_[pair] += (to - from) * (1 - similar);
          }
        }
      };
      weigh(chosen, relevance);
      // A little better is no evidence: with 20 observations it is luck.
      const double value = likelihood(settings_, count);
      if (value > best + 0.5) {
        best = value;
        chosen = relevance;
      } else {
        weigh(relevance, chosen);
      }
    }
    relevance_[i] = chosen;
  }
}

void Surrogate::sum_pairs(size_t count) {
  alike_.assign(count * (count - 1) / 2, 0);
  apart_.assign(alike_.size(), 0);
  for (size_t i = 0; i < relevance_.size(); ++i) {
    size_t pair = 0;
    for (size_t row = 0; row < count; ++row) {
      const char16_t value = observations_[row].point[i];
      for (size_t column = 0; column < row; ++column, ++pair) {
        const double similar = similarity_[i][difference(value, observations_[column].point[i])];
        alike_[pair] += relevance_[i] * similar;
        apart_[pair] += relevance_[i] * (1 - similar);
      }
    }
  }
}

double Surrogate::kernel(double alike, double apart, const Settings& settings) const {
  const double additive = relevance_sum_ > 0 ? alike / relevance_sum_ : 1;
  return settings.additive * additive + (1 - settings.additive) * std::exp(-apart / settings.reach);
}

double Surrogate::likelihood(const Settings& settings, size_t count) {
  factor_.assign(triangle(count), 0);
  size_t pair = 0;
  for (size_t row = 0; row < count; ++row) {
    double* target = &factor_[triangle(row)];
    for (size_t column = 0; column < row; ++column, ++pair) {
      target[column] = kernel(alike_[pair], apart_[pair], settings);
    }
    const double measured = observations_[row].noise / scale_;
    // What was filled in for a failure is no measurement.
    target[row] = 1 + settings.noise + std::min(measured * measured, 4.0) +
                  (observations_[row].failed ? 0.5 : 0);
  }
  if (!factorise(factor_, count)) return hopeless;
  weights_.assign(targets_.begin(), targets_.begin() + static_cast<int64_t>(count));
  solve_lower(factor_, weights_);
  double value = 0;
  for (size_t i = 0; i < count; ++i) {
    value -= 0.5 * weights_[i] * weights_[i] + std::log(factor_[triangle(i) + i]);
  }
  solve_upper(factor_, weights_);
  return value;
}

Surrogate::Prediction Surrogate::at(const Point& point) const {
  std::vector<double> row(observations_.size());
  double mean = 0, failure = failure_rate_;
  for (size_t j = 0; j < row.size(); ++j) {
    const Point& other = observations_[j].point;
    double alike = 0, apart = 0;
    for (size_t i = 0; i < relevance_.size(); ++i) {
      const double similar = similarity_[i][difference(point[i], other[i])];
      alike += relevance_[i] * similar;
      apart += relevance_[i] * (1 - similar);
    }
    row[j] = kernel(alike, apart, settings_);
    mean += row[j] * weights_[j];
    failure += row[j] * failure_weights_[j];
  }
  solve_lower(factor_, row);
  double explained = 0;
  for (const double value : row) explained += value * value;
  return {mean_ + scale_ * mean, scale_ * std::sqrt(std::max(1 - explained, 1e-6)),
          std::clamp(failure, 0.0, 1.0)};
}

}  // namespace marathon
