#include "bench/compare.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

namespace marathon {

namespace {

constexpr int64_t row_elements = 128, block_rows = 64;

struct Sums {
  double error = 0, truth = 0, worst = 0;
  int64_t count = 0;

  void add(const Sums& other) {
    error += other.error;
    truth += other.truth;
    worst = std::max(worst, other.worst);
    count += other.count;
  }
  double truth_rms() const {
    return count == 0 ? 0 : std::sqrt(truth / static_cast<double>(count));
  }
  double error_rms() const {
    return count == 0 ? 0 : std::sqrt(error / static_cast<double>(count));
  }
};

Sums sums_of(const double* output, const double* oracle, int64_t count) {
  Sums sums;
  for (int64_t i = 0; i < count; ++i) {
    const double e = std::isfinite(oracle[i]) ? output[i] - oracle[i] : 0;
    sums.error += e * e;
    sums.truth += std::isfinite(oracle[i]) ? oracle[i] * oracle[i] : 0;
    sums.worst = std::max(sums.worst, std::abs(e));
  }
  sums.count = count;
  return sums;
}

// Zero truth with zero error is right; zero truth with any error is infinitely wrong.
double ratio(double error, double scale) { return error == 0 ? 0 : error / scale; }

bool same_kind(double a, double b) {
  if (std::isnan(b)) return std::isnan(a);
  if (std::isinf(b)) return a == b;
  return std::isfinite(a);
}

std::string first_of_other_kind(const std::vector<double>& output,
                                const std::vector<double>& oracle) {
  for (size_t i = 0; i < oracle.size(); ++i) {
    if (!same_kind(output[i], oracle[i]))
      return fmt::format("element {} is {} and should be {}", i, output[i], oracle[i]);
  }
  return "";
}

std::string place(int64_t element, const std::vector<int64_t>& extents) {
  std::vector<int64_t> index(extents.size());
  for (size_t axis = extents.size(); axis-- > 0;) {
    index[axis] = extents[axis] > 0 ? element % extents[axis] : 0;
    element = extents[axis] > 0 ? element / extents[axis] : 0;
  }
  return fmt::format("[{}]", fmt::join(index, ", "));
}

}  // namespace

ErrorFigures errors_of(const std::vector<double>& output, const std::vector<double>& oracle,
                       int64_t last_axis) {
  ErrorFigures figures;
  figures.not_finite = first_of_other_kind(output, oracle);
  if (!figures.not_finite.empty() || oracle.empty()) return figures;
  const int64_t total = static_cast<int64_t>(oracle.size());
  const int64_t row = std::clamp<int64_t>(last_axis, 1, row_elements);
  std::vector<Sums> rows;
  Sums all;
  for (int64_t at = 0; at < total; at += row) {
    rows.push_back(sums_of(&output[static_cast<size_t>(at)], &oracle[static_cast<size_t>(at)],
                           std::min(row, total - at)));
    all.add(rows.back());
  }
  const double whole = all.truth_rms();
  for (size_t first = 0; first < rows.size(); first += block_rows) {
    const size_t last = std::min(rows.size(), first + block_rows);
    Sums block;
    for (size_t r = first; r < last; ++r) block.add(rows[r]);
    const double scale = std::max(block.truth_rms(), 0.1 * whole);
    const double error = ratio(block.error_rms(), scale);
    if (error > figures.block) {
      figures.block = error;
      figures.worst_block = static_cast<int64_t>(first) * row;
    }
    figures.element = std::max(figures.element, ratio(block.worst, scale));
    for (size_t r = first; r < last; ++r) {
      const double row_scale =
          std::max({rows[r].truth_rms(), 0.1 * block.truth_rms(), 0.01 * whole});
      const double row_error = ratio(rows[r].error_rms(), row_scale);
      if (row_error <= figures.row) continue;
      figures.row = row_error;
      figures.worst_row = static_cast<int64_t>(r) * row;
    }
  }
  return figures;
}

ErrorBound bound_of(const Tolerance& tolerance, const std::string& output,
                    const ErrorFigures& emulation) {
  const auto own = tolerance.cap.find(output);
  const double cap = own == tolerance.cap.end() ? tolerance.default_cap : own->second;
  const auto one = [&](double honest, double minimum, double limit) {
    return std::min(limit, std::max(tolerance.factor * honest, minimum));
  };
  // A row is a small sample and one element a smaller one: their minimum and cap are wider.
  const double factor = tolerance.worst_element_factor;
  return {one(emulation.block, tolerance.minimum, cap),
          one(emulation.row, 4 * tolerance.minimum, 4 * cap),
          one(emulation.element, factor * tolerance.minimum, factor * cap)};
}

ErrorBound wider(const ErrorBound& a, const ErrorBound& b) {
  return {std::max(a.block, b.block), std::max(a.row, b.row), std::max(a.element, b.element)};
}

std::string broken_bound(const ErrorFigures& figures, const ErrorBound& bound,
                         const std::string& output, const std::vector<int64_t>& extents) {
  if (!figures.not_finite.empty()) return fmt::format("output {}: {}", output, figures.not_finite);
  // Written as "not at most", so that a NaN never passes.
  if (!(figures.block <= bound.block)) {
    return fmt::format("output {}: relative error {:.2e} over the block from {}, allowed {:.2e}",
                       output, figures.block, place(figures.worst_block, extents), bound.block);
  }
  if (!(figures.row <= bound.row)) {
    return fmt::format("output {}: relative error {:.2e} in the row at {}, allowed {:.2e}", output,
                       figures.row, place(figures.worst_row, extents), bound.row);
  }
  if (!(figures.element <= bound.element)) {
    return fmt::format("output {}: one element errs by {:.2e} of its block's RMS, allowed {:.2e}",
                       output, figures.element, bound.element);
  }
  return "";
}

}  // namespace marathon
