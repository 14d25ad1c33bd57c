// Fresh inputs, fast. A pool of rows is drawn once a tensor and shape from the distribution; a fill
// copies rows chosen at random. Drawing every element anew would cost more than the kernels it
// feeds.
#pragma once

#include <vector>

#include "base/random.h"
#include "core/task.h"

namespace marathon {

class InputPool {
 public:
  // Rows are along the last axis. 1 ≤ pool size ≤ 2^20 elements.
  static Result<InputPool> make(const Task& task, const Tensor& tensor, const Shape& shape,
                                Random& random);

  // Writes elements() values of the tensor's dtype.
  void fill(char* bytes, Random& random) const;
  int64_t elements() const { return elements_; }
  int64_t bytes() const { return elements_ * bytes_of(dtype_); }

 private:
  DType dtype_ = DType::fp32;
  int64_t elements_ = 0, row_ = 0, rows_in_pool_ = 0;
  bool repeat_ = false;     // one row, everywhere
  std::vector<char> pool_;  // in the tensor's dtype
};

}  // namespace marathon
