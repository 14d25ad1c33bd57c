// Fresh inputs, fast: every element of every call is drawn anew, about 1.5 ns each.
#pragma once

#include <vector>

#include "core/task.h"

namespace marathon {

// Numbers of one stream by a counter (splitmix64, Steele et al. 2014): the i-th number is a mix of
// seed + i · golden ratio. Inlined and without a chain from one number to the next, which base's
// Random has; inputs are the one place where that counts.
class CounterRandom {
 public:
  explicit CounterRandom(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }

 private:
  uint64_t state_;
};

// Draws one tensor of one shape.
class Sampler {
 public:
  static Result<Sampler> make(const Task& task, const Tensor& tensor, const Shape& shape);

  // Writes elements() values of the tensor's dtype. The same seed gives the same bytes.
  void fill(char* bytes, uint64_t seed) const;
  int64_t elements() const { return rows_ * row_; }

 private:
  void draw_row(std::vector<double>& row, CounterRandom& random) const;
  void draw_from_edges(std::vector<double>& row, CounterRandom& random) const;
  double beyond_the_last_edge(CounterRandom& random) const;

  Distribution distribution_;
  DType dtype_ = DType::fp32;
  double norm_ = 0;
  int64_t rows_ = 0, row_ = 1;
  // Quantiles at i / bins: a draw is a bin and a place inside of it. The two outer bins of a normal
  // are its tails, drawn exactly.
  std::vector<double> edges_;
};

}  // namespace marathon
