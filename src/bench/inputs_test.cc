#include "bench/inputs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "bench/dtype.h"

namespace marathon {
namespace {

// One tensor [rows, columns] of a distribution.
Values drawn(const Distribution& distribution, int64_t rows, int64_t columns, uint64_t seed = 1,
             double norm = 0, DType dtype = DType::fp64) {
  Task task;
  task.dims = {"R", "C"};
  Tensor tensor;
  tensor.name = "x";
  tensor.dtype = dtype;
  tensor.shape = {*Expression::parse("R"), *Expression::parse("C")};
  tensor.distribution = distribution;
  tensor.normalize_last_axis = norm;
  Shape shape;
  shape.dims = {{"R", rows}, {"C", columns}};
  const Result<Sampler> sampler = Sampler::make(task, tensor, shape);
  EXPECT_TRUE(sampler);
  std::vector<char> bytes(static_cast<size_t>(rows * columns * bytes_of(dtype)));
  sampler->fill(bytes.data(), seed);
  return to_doubles(dtype, bytes.data(), rows * columns);
}

double mean(const Values& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

double share_below(const Values& values, double limit) {
  const auto below = [&](double value) { return value < limit; };
  return static_cast<double>(std::count_if(values.begin(), values.end(), below)) /
         static_cast<double>(values.size());
}

TEST(Inputs, NormalHasItsMomentsAndTails) {
  const Values values = drawn({Distribution::Kind::normal, 3, 2}, 1000, 1000);
  EXPECT_NEAR(mean(values), 3, 0.01);
  EXPECT_NEAR(share_below(values, 1), 0.15866, 0.002);   // one standard deviation
  EXPECT_NEAR(share_below(values, -1), 0.02275, 0.001);  // two
  EXPECT_NEAR(share_below(values, -5), 3.17e-5, 2e-5);   // four: inside of a tail bin
  EXPECT_GT(*std::max_element(values.begin(), values.end()), 3 + 2 * 4.2);
}

TEST(Inputs, LogUniformIsEvenInTheLogarithm) {
  const Values values = drawn({Distribution::Kind::log_uniform, 1e-4, 1}, 300, 1000);
  EXPECT_NEAR(share_below(values, 1e-2), 0.5, 0.005);
  EXPECT_NEAR(share_below(values, 1e-3), 0.25, 0.005);
  const Values negative = drawn({Distribution::Kind::neg_log_uniform, 1e-4, 1}, 300, 1000);
  EXPECT_NEAR(share_below(negative, -1e-2), 0.5, 0.005);
  EXPECT_LE(*std::max_element(negative.begin(), negative.end()), -1e-4);
}

TEST(Inputs, UniformAndIntegersStayInside) {
  const Values uniform = drawn({Distribution::Kind::uniform, -2, 6}, 100, 1000);
  EXPECT_NEAR(mean(uniform), 2, 0.05);
  EXPECT_GE(*std::min_element(uniform.begin(), uniform.end()), -2);
  EXPECT_LT(*std::max_element(uniform.begin(), uniform.end()), 6);
  const Values whole = drawn({Distribution::Kind::integers, -1, 2}, 10, 100, 1, 0, DType::int32);
  EXPECT_EQ(std::set<double>(whole.begin(), whole.end()), (std::set<double>{-1, 0, 1, 2}));
}

TEST(Inputs, SpecialRows) {
  const Values constant = drawn({Distribution::Kind::constant, -5, 0}, 2, 3);
  EXPECT_EQ(constant, Values(6, -5.0));
  const Values half = drawn({Distribution::Kind::half_half, 0, -5}, 1, 4);
  EXPECT_EQ(half, (Values{0, 0, -5, -5}));
  const Values repeated = drawn({Distribution::Kind::repeat_row, 0, 1}, 3, 5);
  EXPECT_TRUE(std::equal(repeated.begin(), repeated.begin() + 5, repeated.begin() + 10));
  EXPECT_NE(repeated[0], repeated[1]);
  const Values sign = drawn({Distribution::Kind::sign, -1, 1}, 10, 100);
  EXPECT_NEAR(mean(sign), 0, 0.15);
  EXPECT_EQ(std::set<double>(sign.begin(), sign.end()), (std::set<double>{-1, 1}));
}

TEST(Inputs, LogitOfALogUniformProbability) {
  const Values values = drawn({Distribution::Kind::logit_log_uniform, 1e-4, 0.99}, 300, 1000);
  const auto logit = [](double p) { return std::log(p / (1 - p)); };
  const double middle = std::exp(0.5 * (std::log(1e-4) + std::log(0.99)));
  EXPECT_NEAR(share_below(values, logit(middle)), 0.5, 0.005);
  // The share of log p between 0.9 and 0.99, where the logit bends.
  const double share = std::log(0.99 / 0.9) / std::log(0.99 / 1e-4);
  EXPECT_NEAR(share_below(values, logit(0.9)), 1 - share, 0.001);
  EXPECT_NEAR(*std::min_element(values.begin(), values.end()), logit(1e-4), 0.01);
  const double largest = *std::max_element(values.begin(), values.end());
  EXPECT_LE(largest, logit(0.99) + 1e-9);
  EXPECT_GT(largest, logit(0.985));
}

// A tensor of offsets is filled whole: `count` elements on one axis.
Result<Values> offsets_of(const std::vector<int64_t>& lengths, int64_t count, uint64_t seed,
                          DType dtype = DType::int32) {
  Task task;
  task.dims = {"N"};
  Tensor tensor;
  tensor.name = "cu_seqlens";
  tensor.dtype = dtype;
  tensor.shape = {*Expression::parse("N")};
  tensor.distribution.kind = Distribution::Kind::offsets;
  tensor.distribution.lengths = lengths;
  Shape shape;
  shape.name = "s";
  shape.dims = {{"N", count}};
  const Sampler sampler = TRY(Sampler::make(task, tensor, shape));
  std::vector<char> bytes(static_cast<size_t>(count * bytes_of(dtype)));
  sampler.fill(bytes.data(), seed);
  return to_doubles(dtype, bytes.data(), count);
}

TEST(Inputs, OffsetsAreSumsOfTheLengthsInARandomOrder) {
  std::set<std::vector<double>> orders;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    const Result<Values> offsets = offsets_of({1300, 547, 0}, 4, seed);
    ASSERT_TRUE(offsets) << offsets.error().what;
    EXPECT_EQ(offsets->front(), 0);
    EXPECT_EQ(offsets->back(), 1847);
    std::vector<double> lengths;
    for (size_t i = 1; i < offsets->size(); ++i)
      lengths.push_back((*offsets)[i] - (*offsets)[i - 1]);
    orders.insert(lengths);
    std::sort(lengths.begin(), lengths.end());
    EXPECT_EQ(lengths, (std::vector<double>{0, 547, 1300}));
  }
  EXPECT_EQ(orders.size(), 6u);
  EXPECT_EQ(*offsets_of({5, 6}, 3, 7, DType::int64), *offsets_of({5, 6}, 3, 7, DType::int32));
}

TEST(Inputs, OffsetsNeedTheirNumberOfElements) {
  EXPECT_FALSE(offsets_of({1300, 547}, 2, 1));
  EXPECT_FALSE(offsets_of({1300, 547}, 4, 1));
  EXPECT_TRUE(offsets_of({1300, 547}, 3, 1));
}

TEST(Inputs, RowsAreNormalized) {
  const Values values = drawn({Distribution::Kind::normal, 0, 1}, 4, 64, 1, 3.0);
  for (size_t row = 0; row < 4; ++row) {
    double squares = 0;
    for (size_t i = 0; i < 64; ++i) squares += values[row * 64 + i] * values[row * 64 + i];
    EXPECT_NEAR(std::sqrt(squares), 3, 1e-12);
  }
}

TEST(Inputs, TheSeedDecides) {
  const Distribution normal{Distribution::Kind::normal, 0, 1};
  EXPECT_EQ(drawn(normal, 10, 10, 5), drawn(normal, 10, 10, 5));
  EXPECT_NE(drawn(normal, 10, 10, 5), drawn(normal, 10, 10, 6));
}

TEST(Inputs, SixteenBitTypesRoundToNearestEven) {
  EXPECT_EQ(bf16_to_float(float_to_bf16(1.00390625f)), 1.0f);       // halfway: to even
  EXPECT_EQ(bf16_to_float(float_to_bf16(1.01171875f)), 1.015625f);  // halfway: to even, up
  EXPECT_EQ(fp16_to_float(float_to_fp16(65504)), 65504);
  EXPECT_TRUE(std::isinf(fp16_to_float(float_to_fp16(65520))));
  EXPECT_EQ(fp16_to_float(float_to_fp16(5.9604645e-8f)), 5.9604645e-8f);  // the least subnormal
  EXPECT_TRUE(std::isnan(bf16_to_float(float_to_bf16(std::nanf("")))));
  for (uint32_t bits = 0; bits < 0x7c00; ++bits) {
    const float value = fp16_to_float(static_cast<uint16_t>(bits));
    EXPECT_EQ(float_to_fp16(value), bits);
  }
}

}  // namespace
}  // namespace marathon
