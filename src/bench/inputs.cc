#include "bench/inputs.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "bench/dtype.h"

namespace marathon {

namespace {

constexpr int64_t pool_elements = 1 << 20;

double draw(const Distribution& d, Random& random, int64_t column, int64_t columns) {
  switch (d.kind) {
    case Distribution::Kind::normal:
    case Distribution::Kind::repeat_row:
      return d.a + d.b * random.normal();
    case Distribution::Kind::uniform:
      return d.a + (d.b - d.a) * random.uniform();
    case Distribution::Kind::log_uniform:
      return std::exp(std::log(d.a) + (std::log(d.b) - std::log(d.a)) * random.uniform());
    case Distribution::Kind::neg_log_uniform:
      return -std::exp(std::log(d.a) + (std::log(d.b) - std::log(d.a)) * random.uniform());
    case Distribution::Kind::constant:
      return d.a;
    case Distribution::Kind::integers:
      return d.a + static_cast<double>(random.below(static_cast<uint64_t>(d.b - d.a) + 1));
    case Distribution::Kind::sign:
      return random.next() >> 63 ? d.a : d.b;
    case Distribution::Kind::half_half:
      return column < columns / 2 ? d.a : d.b;
  }
  return 0;
}

void normalize(std::vector<double>& row, double norm) {
  double squares = 0;
  for (const double value : row) squares += value * value;
  if (squares <= 0) return;
  const double factor = norm / std::sqrt(squares);
  for (double& value : row) value *= factor;
}

}  // namespace

Result<InputPool> InputPool::make(const Task& task, const Tensor& tensor, const Shape& shape,
                                  Random& random) {
  InputPool pool;
  const std::vector<int64_t> extents = TRY(extents_of(task, tensor, shape));
  pool.dtype_ = tensor.dtype;
  pool.elements_ = TRY(elements_of(task, tensor, shape));
  pool.row_ = extents.empty() ? 1 : extents.back();
  if (pool.elements_ == 0) return pool;
  const auto override_of = shape.distributions.find(tensor.name);
  const Distribution& distribution =
      override_of == shape.distributions.end() ? tensor.distribution : override_of->second;
  pool.repeat_ = distribution.kind == Distribution::Kind::repeat_row;
  // A long vector is copied in pieces, so that a fill is never a mere rotation of the pool.
  const bool may_split = tensor.normalize_last_axis <= 0 &&
                         distribution.kind != Distribution::Kind::half_half && !pool.repeat_;
  if (may_split) pool.row_ = std::min<int64_t>(pool.row_, 64);
  const int64_t rows = pool.elements_ / pool.row_ + (pool.elements_ % pool.row_ != 0);
  pool.rows_in_pool_ =
      std::clamp<int64_t>(pool_elements / pool.row_, 1, std::max<int64_t>(4 * rows, 64));
  pool.pool_.resize(static_cast<size_t>(pool.rows_in_pool_ * pool.row_ * bytes_of(pool.dtype_)));
  std::vector<double> row(static_cast<size_t>(pool.row_));
  for (int64_t r = 0; r < pool.rows_in_pool_; ++r) {
    for (int64_t c = 0; c < pool.row_; ++c)
      row[static_cast<size_t>(c)] = draw(distribution, random, c, pool.row_);
    if (tensor.normalize_last_axis > 0) normalize(row, tensor.normalize_last_axis);
    for (int64_t c = 0; c < pool.row_; ++c) {
      set_element(pool.dtype_, pool.pool_.data(), r * pool.row_ + c, row[static_cast<size_t>(c)]);
    }
  }
  return pool;
}

void InputPool::fill(char* bytes, Random& random) const {
  if (elements_ == 0) return;
  const int64_t row_bytes = row_ * bytes_of(dtype_);
  const int64_t total = this->bytes();
  const uint64_t the_one = random.below(static_cast<uint64_t>(rows_in_pool_));
  for (int64_t at = 0; at < total; at += row_bytes) {
    const uint64_t from = repeat_ ? the_one : random.below(static_cast<uint64_t>(rows_in_pool_));
    std::memcpy(bytes + at, pool_.data() + static_cast<int64_t>(from) * row_bytes,
                static_cast<size_t>(std::min(row_bytes, total - at)));
  }
}

}  // namespace marathon
