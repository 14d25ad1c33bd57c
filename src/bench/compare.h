// Is an output right? Errors are relative and local: a pooled figure hides one zeroed row.
//
// The last axis of an output is cut into rows of at most 128 elements. A row is named by its place
// in the grid of the other axes and the cut. For each axis of that grid with 16 places or more, a
// slice is all rows that differ in this axis only (a head's tokens, a matrix' rows), and a block is
// 64 rows of a slice in a row. Where no axis is that long, all rows together are one slice. With e
// = output - oracle and RMS over the elements of a piece:
//
//   block error   = RMS(e, block) / max(RMS(oracle, block), 0.1 RMS(oracle, slice))
//   row error     = RMS(e, row)   / max(RMS(oracle, row), 0.1 RMS(oracle, block),
//                                       0.01 RMS(oracle, slice))
//   worst element = max |e| in the block / the block's denominator
//
// The figure of an output is its worst block, row and element over all axes. Before that, NaN and
// Inf must stand where the oracle has them, and nowhere else.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/task.h"
#include "core/verdict.h"

namespace marathon {

struct ErrorFigures {
  double block = 0, row = 0, element = 0;
  int64_t worst_block = 0,
          worst_block_end = 0;  // elements: the first, and the last one's row
  int64_t worst_row = 0;        // its first element
  std::string not_finite;       // where NaN or Inf stands wrongly; empty: nowhere
};

ErrorFigures errors_of(std::span<const double> output, std::span<const double> oracle,
                       const std::vector<int64_t>& extents);

// The same from sums of rows that were made elsewhere (on a GPU), in the order of the grid.
struct RowSums {
  double error = 0, truth = 0, worst = 0;  // Σ e², Σ oracle², max |e|
  int64_t count = 0;                       // elements
};
struct RowGrid {
  int64_t row = 1;               // elements of a row; the last of a cut may have fewer
  std::vector<int64_t> extents;  // places along each axis of the grid
  int64_t last_axis = 1, cuts = 1;

  int64_t rows() const;
  int64_t first_element(int64_t index) const;
  int64_t size_of(int64_t index) const;
};
RowGrid grid_of(const std::vector<int64_t>& extents);
ErrorFigures errors_of_rows(const std::vector<RowSums>& rows, const RowGrid& grid);

// What an output may err: from the emulation on the same inputs, and the task's caps.
struct ErrorBound {
  double block = 0, row = 0, element = 0;
};
ErrorBound bound_of(const Tolerance& tolerance, const std::string& output,
                    const ErrorFigures& emulation);
ErrorBound wider(const ErrorBound& a, const ErrorBound& b);

// Empty when `figures` keeps the bound; else the reason in words. Where in the output it is wrong
// is not told for hidden shapes: it would tell their dims.
enum class Places { told, untold };
std::string broken_bound(const ErrorFigures& figures, const ErrorBound& bound, const Tensor& output,
                         const std::vector<int64_t>& extents, Places places = Places::told);

// "B 0, T 64–127, H 3": the elements from `first` to `last`, by the names of the axes.
std::string place_in_words(const Tensor& output, const std::vector<int64_t>& extents, int64_t first,
                           int64_t last);

}  // namespace marathon
