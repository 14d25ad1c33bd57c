// Is an output right? Errors are relative and local: a pooled figure hides one zeroed row.
//
// An output is cut into rows: pieces of at most 128 elements of its last axis. 64 rows in a row are
// a block. With e = output - oracle and RMS over the elements of a piece:
//
//   block error   = RMS(e over the block) / max(RMS(oracle over the block), 0.1 RMS(oracle over
//   all)) row error     = RMS(e over the row)   / max(RMS(oracle over the row),   0.1 RMS(oracle
//   over its block),
//                                               0.01 RMS(oracle over all))
//   worst element = max |e| in the block  / the block's denominator
//
// The figure of an output is its worst block, worst row and worst element. Before that, NaN and Inf
// must stand where the oracle has them, and nowhere else.
#pragma once

#include <string>
#include <vector>

#include "core/task.h"
#include "core/verdict.h"

namespace marathon {

struct ErrorFigures {
  double block = 0, row = 0, element = 0;
  int64_t worst_block = 0, worst_row = 0;  // index of the first element
  std::string not_finite;                  // where NaN or Inf stands wrongly; empty: nowhere
};

ErrorFigures errors_of(const std::vector<double>& output, const std::vector<double>& oracle,
                       int64_t last_axis);

// What an output may err: from the emulation on the same inputs, and the task's caps.
struct ErrorBound {
  double block = 0, row = 0, element = 0;
};
ErrorBound bound_of(const Tolerance& tolerance, const std::string& output,
                    const ErrorFigures& emulation);
ErrorBound wider(const ErrorBound& a, const ErrorBound& b);

// Empty when `figures` keeps the bound; else the reason in words.
std::string broken_bound(const ErrorFigures& figures, const ErrorBound& bound,
                         const std::string& output, const std::vector<int64_t>& extents);

}  // namespace marathon
