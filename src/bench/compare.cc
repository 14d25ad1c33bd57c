#include "bench/compare.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace marathon {

namespace {

constexpr int64_t row_elements = 128, block_rows = 64, least_slice_rows = 16;

void add(RowSums& sums, const RowSums& other) {
  sums.error += other.error;
  sums.truth += other.truth;
  sums.worst = std::max(sums.worst, other.worst);
  sums.count += other.count;
}
double truth_rms(const RowSums& sums) {
  return sums.count == 0 ? 0 : std::sqrt(sums.truth / static_cast<double>(sums.count));
}
double error_rms(const RowSums& sums) {
  return sums.count == 0 ? 0 : std::sqrt(sums.error / static_cast<double>(sums.count));
}

constexpr int64_t lanes = 8;

// Eight sums side by side, so that the compiler may use vectors without reordering a sum: this loop
// reads every element of every timed output. False when something in the row is not finite.
__attribute__((optimize("O3"))) bool add_finite(const double* output, const double* oracle,
                                                int64_t count, RowSums& sums) {
  double error[lanes] = {}, truth[lanes] = {}, worst[lanes] = {};
  const int64_t whole = count / lanes * lanes;
  for (int64_t i = 0; i < whole; i += lanes) {
    for (int64_t lane = 0; lane < lanes; ++lane) {
      const double e = output[i + lane] - oracle[i + lane];
      error[lane] += e * e;
      truth[lane] += oracle[i + lane] * oracle[i + lane];
      worst[lane] = std::max(worst[lane], std::abs(e));
    }
  }
  for (int64_t i = whole; i < count; ++i) {
    const double e = output[i] - oracle[i];
    error[0] += e * e;
    truth[0] += oracle[i] * oracle[i];
    worst[0] = std::max(worst[0], std::abs(e));
  }
  for (int64_t lane = 0; lane < lanes; ++lane) add(sums, {error[lane], truth[lane], worst[lane], 0});
  sums.count += count;
  // A NaN or Inf anywhere makes one of the two sums so; a square that overflows lands here too.
  return std::isfinite(sums.error) && std::isfinite(sums.truth);
}

RowSums add_all(const double* output, const double* oracle, int64_t count) {
  RowSums sums;
  for (int64_t i = 0; i < count; ++i) {
    const double e = std::isfinite(oracle[i]) ? output[i] - oracle[i] : 0;
    sums.error += e * e;
    sums.truth += std::isfinite(oracle[i]) ? oracle[i] * oracle[i] : 0;
    sums.worst = std::max(sums.worst, std::abs(e));
  }
  sums.count = count;
  return sums;
}

bool same_kind(double a, double b) {
  if (std::isnan(b)) return std::isnan(a);
  if (std::isinf(b)) return a == b;
  return std::isfinite(a);
}

// Zero truth with zero error is right; zero truth with any error is infinitely wrong. So is what
// cannot be told, because squares overflowed on both sides.
double ratio(double error, double scale) {
  if (error == 0) return 0;
  const double value = error / scale;
  return value < std::numeric_limits<double>::infinity() ? value
                                                         : std::numeric_limits<double>::infinity();
}

// Sums of every row; `not_finite` when a NaN or Inf stands wrongly.
std::vector<RowSums> sums_of_rows(std::span<const double> output, std::span<const double> oracle,
                               const RowGrid& grid, std::string& not_finite) {
  std::vector<RowSums> rows;
  const int64_t count = static_cast<int64_t>(oracle.size()) / grid.last_axis * grid.cuts;
  rows.reserve(static_cast<size_t>(count));
  for (int64_t index = 0; index < count; ++index) {
    const int64_t first = grid.first_element(index), size = grid.size_of(index);
    const double *out = output.data() + first, *truth = oracle.data() + first;
    rows.emplace_back();
    if (add_finite(out, truth, size, rows.back())) continue;
    for (int64_t i = 0; i < size; ++i) {
      if (same_kind(out[i], truth[i])) continue;
      not_finite = fmt::format("element {} is {} and should be {}", first + i, out[i], truth[i]);
      return rows;
    }
    rows.back() = add_all(out, truth, size);
  }
  return rows;
}

// Rows of one slice: index of the first, distance between two, how many.
struct Slice {
  int64_t first = 0, step = 1, count = 0;
};

class Figures {
 public:
  Figures(const RowGrid& grid, const std::vector<RowSums>& rows) : grid_(grid), rows_(rows) {}

  void add(const Slice& slice) {
    RowSums all;
    for (int64_t i = 0; i < slice.count; ++i) marathon::add(all, at(slice, i));
    for (int64_t begin = 0; begin < slice.count; begin += block_rows)
      add_block(slice, begin, std::min(begin + block_rows, slice.count), truth_rms(all));
  }
  const ErrorFigures& result() const { return figures_; }

 private:
  const RowSums& at(const Slice& slice, int64_t i) const {
    return rows_[static_cast<size_t>(slice.first + i * slice.step)];
  }

  void add_block(const Slice& slice, int64_t begin, int64_t end, double slice_rms) {
    RowSums block;
    for (int64_t i = begin; i < end; ++i) marathon::add(block, at(slice, i));
    const double block_rms = truth_rms(block), scale = std::max(block_rms, 0.1 * slice_rms);
    const double error = ratio(error_rms(block), scale);
    if (error > figures_.block) {
      figures_.block = error;
      figures_.worst_block = grid_.first_element(slice.first + begin * slice.step);
      figures_.worst_block_end = grid_.first_element(slice.first + (end - 1) * slice.step);
    }
    figures_.element = std::max(figures_.element, ratio(block.worst, scale));
    const double least_row_scale = std::max(0.1 * block_rms, 0.01 * slice_rms);
    for (int64_t i = begin; i < end; ++i) {
      const RowSums& row = at(slice, i);
      const double row_error = ratio(error_rms(row), std::max(truth_rms(row), least_row_scale));
      if (row_error <= figures_.row) continue;
      figures_.row = row_error;
      figures_.worst_row = grid_.first_element(slice.first + i * slice.step);
    }
  }

  const RowGrid& grid_;
  const std::vector<RowSums>& rows_;
  ErrorFigures figures_;
};

}  // namespace

int64_t RowGrid::rows() const {
  int64_t rows = 1;
  for (const int64_t extent : extents) rows *= extent;
  return rows;
}

int64_t RowGrid::first_element(int64_t index) const {
  return index / cuts * last_axis + index % cuts * row;
}

int64_t RowGrid::size_of(int64_t index) const {
  return std::min(row, last_axis - index % cuts * row);
}

RowGrid grid_of(const std::vector<int64_t>& extents) {
  RowGrid grid;
  grid.last_axis = extents.empty() ? 1 : extents.back();
  grid.row = std::min(grid.last_axis, row_elements);
  grid.cuts = (grid.last_axis + grid.row - 1) / grid.row;
  if (!extents.empty()) grid.extents.assign(extents.begin(), extents.end() - 1);
  grid.extents.push_back(grid.cuts);
  return grid;
}

ErrorFigures errors_of(std::span<const double> output, std::span<const double> oracle,
                       const std::vector<int64_t>& extents) {
  if (oracle.empty()) return {};
  const RowGrid grid = grid_of(extents);
  std::string not_finite;
  const std::vector<RowSums> rows = sums_of_rows(output, oracle, grid, not_finite);
  if (!not_finite.empty()) {
    ErrorFigures figures;
    figures.not_finite = std::move(not_finite);
    return figures;
  }
  return errors_of_rows(rows, grid);
}

ErrorFigures errors_of_rows(const std::vector<RowSums>& rows, const RowGrid& grid) {
  Figures figures(grid, rows);
  const int64_t total = static_cast<int64_t>(rows.size());
  bool sliced = false;
  int64_t step = total;
  for (const int64_t extent : grid.extents) {
    const int64_t outer_step = step;
    step /= extent;
    if (extent < least_slice_rows) continue;
    sliced = true;
    for (int64_t outer = 0; outer < total; outer += outer_step) {
      for (int64_t inner = 0; inner < step; ++inner) figures.add({outer + inner, step, extent});
    }
  }
  if (!sliced) figures.add({0, 1, total});
  return figures.result();
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

std::string place_in_words(const Tensor& output, const std::vector<int64_t>& extents, int64_t first,
                           int64_t last) {
  std::string words;
  std::vector<std::string> axes(extents.size());
  for (size_t axis = extents.size(); axis-- > 0;) {
    const int64_t from = first % extents[axis], to = last % extents[axis];
    first /= extents[axis];
    last /= extents[axis];
    const std::string name =
        axis < output.shape.size() ? output.shape[axis].text() : std::to_string(axis);
    axes[axis] =
        from == to ? fmt::format("{} {}", name, from) : fmt::format("{} {}–{}", name, from, to);
  }
  return fmt::format("{}", fmt::join(axes, ", "));
}

std::string broken_bound(const ErrorFigures& figures, const ErrorBound& bound, const Tensor& output,
                         const std::vector<int64_t>& extents, Places places) {
  const std::string& name = output.name;
  const bool told = places == Places::told;
  const auto at = [&](const char* what, int64_t first, int64_t last) {
    return told ? what + place_in_words(output, extents, first, last) : std::string();
  };
  if (!figures.not_finite.empty()) {
    return told ? fmt::format("output {}: {}", name, figures.not_finite)
                : fmt::format(
                      "output {}: NaN or infinity where there should be none, or none where there "
                      "should be",
                      name);
  }
  // Written as "not at most", so that a NaN never passes.
  if (!(figures.block <= bound.block)) {
    return fmt::format("output {}: relative error {:.2e}{}, allowed {:.2e}", name, figures.block,
                       at(" over the rows at ", figures.worst_block, figures.worst_block_end),
                       bound.block);
  }
  if (!(figures.row <= bound.row)) {
    return fmt::format("output {}: relative error {:.2e} in a row{}, allowed {:.2e}", name,
                       figures.row, at(" at ", figures.worst_row, figures.worst_row), bound.row);
  }
  if (!(figures.element <= bound.element)) {
    return fmt::format("output {}: one element errs by {:.2e} of its block's RMS, allowed {:.2e}",
                       name, figures.element, bound.element);
  }
  return "";
}

}  // namespace marathon
