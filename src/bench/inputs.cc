#include "bench/inputs.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

#include "bench/dtype.h"

namespace marathon {

namespace {

constexpr int bin_bits = 10, bins = 1 << bin_bits;

double normal_cdf(double z) { return 0.5 * std::erfc(-z / std::numbers::sqrt2); }

// By bisection: 1,023 of them, once a tensor and shape, and nothing to get wrong.
double normal_quantile(double p) {
  double low = -6, high = 6;
  for (int i = 0; i < 52; ++i) {
    const double middle = 0.5 * (low + high);
    (normal_cdf(middle) < p ? low : high) = middle;
  }
  return 0.5 * (low + high);
}

const std::vector<double>& normal_edges() {
  static const std::vector<double> edges = [] {
    std::vector<double> all(bins + 1);
    for (int i = 1; i < bins; ++i)
      all[static_cast<size_t>(i)] = normal_quantile(static_cast<double>(i) / bins);
    return all;  // the outermost two are never used
  }();
  return edges;
}

std::vector<double> edges_of(const Distribution& d) {
  switch (d.kind) {
    case Distribution::Kind::normal:
    case Distribution::Kind::repeat_row:
      return normal_edges();
    case Distribution::Kind::log_uniform:
    case Distribution::Kind::neg_log_uniform: {
      std::vector<double> edges(bins + 1);
      const double low = std::log(d.a), high = std::log(d.b);
      const double sign = d.kind == Distribution::Kind::log_uniform ? 1 : -1;
      for (int i = 0; i <= bins; ++i)
        edges[static_cast<size_t>(i)] = sign * std::exp(low + (high - low) * i / bins);
      return edges;
    }
    case Distribution::Kind::uniform:
    case Distribution::Kind::constant:
    case Distribution::Kind::integers:
    case Distribution::Kind::sign:
    case Distribution::Kind::half_half:
    case Distribution::Kind::logit_log_uniform:
    case Distribution::Kind::offsets:
      return {};
  }
  return {};
}

// The sums of the lengths, in an order of Fisher and Yates (1938).
void draw_offsets(std::vector<int64_t> lengths, std::vector<double>& row, CounterRandom& random) {
  for (size_t i = lengths.size(); i > 1; --i) {
    const double place = random.uniform() * static_cast<double>(i);
    std::swap(lengths[i - 1], lengths[static_cast<size_t>(place)]);
  }
  int64_t sum = 0;
  row[0] = 0;
  for (size_t i = 0; i < lengths.size(); ++i) {
    sum += lengths[i];
    row[i + 1] = static_cast<double>(sum);
  }
}

void normalize(std::vector<double>& row, double norm) {
  double squares = 0;
  for (const double value : row) squares += value * value;
  if (squares <= 0) return;
  const double factor = norm / std::sqrt(squares);
  for (double& value : row) value *= factor;
}

}  // namespace

Result<Sampler> Sampler::make(const Task& task, const Tensor& tensor, const Shape& shape) {
  Sampler sampler;
  const std::vector<int64_t> extents = TRY(extents_of(task, tensor, shape));
  const auto override_of = shape.distributions.find(tensor.name);
  sampler.distribution_ =
      override_of == shape.distributions.end() ? tensor.distribution : override_of->second;
  sampler.dtype_ = tensor.dtype;
  sampler.norm_ = tensor.normalize_last_axis;
  const int64_t elements = TRY(elements_of(task, tensor, shape));
  sampler.row_ = extents.empty() ? 1 : extents.back();
  sampler.rows_ = elements == 0 ? 0 : elements / sampler.row_;
  const size_t lengths = sampler.distribution_.lengths.size();
  if (sampler.distribution_.kind == Distribution::Kind::offsets &&
      (extents.size() != 1 || elements != static_cast<int64_t>(lengths) + 1)) {
    return fail(Fault::invalid, "tensor '" + tensor.name + "' at shape '" + shape.name +
                                    "' has not one axis with one element more than lengths");
  }
  sampler.edges_ = edges_of(sampler.distribution_);
  return sampler;
}

// Marsaglia's method (1964) for the part of a normal beyond z.
double Sampler::beyond_the_last_edge(CounterRandom& random) const {
  const double z = edges_[bins - 1];
  while (true) {
    const double x = std::sqrt(z * z - 2 * std::log(1 - random.uniform()));
    if (random.uniform() * x < z) return x;
  }
}

void Sampler::draw_from_edges(std::vector<double>& row, CounterRandom& random) const {
  const bool normal = distribution_.kind == Distribution::Kind::normal ||
                      distribution_.kind == Distribution::Kind::repeat_row;
  for (double& value : row) {
    const uint64_t bits = random.next();
    const size_t bin = bits >> (64 - bin_bits);
    if (normal && (bin == 0 || bin == bins - 1)) [[unlikely]] {
      const double tail = beyond_the_last_edge(random);
      value = bin == 0 ? -tail : tail;
    } else {
      const double inside = static_cast<double>(bits << bin_bits >> 11) * 0x1p-53;
      value = edges_[bin] + inside * (edges_[bin + 1] - edges_[bin]);
    }
  }
  if (!normal) return;
  for (double& value : row) value = distribution_.a + distribution_.b * value;
}

void Sampler::draw_row(std::vector<double>& row, CounterRandom& random) const {
  const Distribution& d = distribution_;
  switch (d.kind) {
    case Distribution::Kind::normal:
    case Distribution::Kind::repeat_row:
    case Distribution::Kind::log_uniform:
    case Distribution::Kind::neg_log_uniform:
      draw_from_edges(row, random);
      break;
    case Distribution::Kind::uniform:
      for (double& value : row) value = d.a + (d.b - d.a) * random.uniform();
      break;
    case Distribution::Kind::constant:
      std::fill(row.begin(), row.end(), d.a);
      break;
    case Distribution::Kind::integers: {
      const double count = std::floor(d.b) - std::ceil(d.a) + 1;
      for (double& value : row) value = std::ceil(d.a) + std::floor(count * random.uniform());
      break;
    }
    case Distribution::Kind::sign:
      for (double& value : row) value = random.next() >> 63 ? d.a : d.b;
      break;
    case Distribution::Kind::half_half:
      std::fill(row.begin(), row.begin() + static_cast<std::ptrdiff_t>(row.size() / 2), d.a);
      std::fill(row.begin() + static_cast<std::ptrdiff_t>(row.size() / 2), row.end(), d.b);
      break;
    // Not from edges: a straight line between two of them is no logarithm near p = 1.
    case Distribution::Kind::logit_log_uniform: {
      const double low = std::log(d.a), high = std::log(d.b);
      for (double& value : row) {
        const double log_p = low + (high - low) * random.uniform();
        value = log_p - std::log1p(-std::exp(log_p));
      }
      break;
    }
    case Distribution::Kind::offsets:
      draw_offsets(d.lengths, row, random);
      break;
  }
  if (norm_ > 0) normalize(row, norm_);
}

void Sampler::fill(char* bytes, uint64_t seed) const {
  CounterRandom random(seed);
  std::vector<double> row(static_cast<size_t>(row_));
  const bool repeat = distribution_.kind == Distribution::Kind::repeat_row;
  const int64_t row_bytes = row_ * bytes_of(dtype_);
  for (int64_t r = 0; r < rows_; ++r) {
    if (repeat && r > 0) {
      std::memcpy(bytes + r * row_bytes, bytes, static_cast<size_t>(row_bytes));
      continue;
    }
    draw_row(row, random);
    from_doubles(dtype_, row, bytes + r * row_bytes);
  }
}

}  // namespace marathon
