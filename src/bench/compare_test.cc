#include "bench/compare.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/random.h"

namespace marathon {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

std::vector<double> normal(int64_t count, uint64_t seed = 1) {
  Random random(seed);
  std::vector<double> values(static_cast<size_t>(count));
  for (double& value : values) value = random.normal();
  return values;
}

Tensor tensor_of(const std::vector<std::string>& axes) {
  Tensor tensor;
  tensor.name = "o";
  tensor.role = Role::output;
  for (const std::string& axis : axes) tensor.shape.push_back(*Expression::parse(axis));
  return tensor;
}

TEST(Compare, ExactIsZero) {
  const std::vector<double> truth = normal(1000);
  const ErrorFigures figures = errors_of(truth, truth, {10, 100});
  EXPECT_EQ(figures.block, 0);
  EXPECT_EQ(figures.row, 0);
  EXPECT_EQ(figures.element, 0);
  EXPECT_EQ(figures.not_finite, "");
}

TEST(Compare, OneZeroedRowInAThousandShows) {
  const std::vector<double> truth = normal(1000 * 64);
  std::vector<double> output = truth;
  for (size_t i = 500 * 64; i < 501 * 64; ++i) output[i] = 0;
  const ErrorFigures figures = errors_of(output, truth, {1000, 64});
  EXPECT_NEAR(figures.row, 1, 1e-12);
  EXPECT_NEAR(figures.block, std::sqrt(1.0 / 64), 0.02);  // one of the 64 rows of its block
  EXPECT_EQ(figures.worst_row, 500 * 64);
  EXPECT_EQ(figures.worst_block, 448 * 64);
}

// A head a thousand times smaller than its neighbour must not hide behind it.
TEST(Compare, ASmallHeadIsMeasuredByItsOwnSize) {
  constexpr int64_t tokens = 64, heads = 2, size = 16;
  std::vector<double> truth = normal(tokens * heads * size);
  std::vector<double> output = truth;
  for (size_t i = 0; i < truth.size(); ++i) {
    if (i / size % heads == 0) continue;
    truth[i] *= 1e-3;
    output[i] = 0;
  }
  const ErrorFigures figures = errors_of(output, truth, {1, tokens, heads, size});
  EXPECT_NEAR(figures.block, 1, 1e-12);
  EXPECT_EQ(place_in_words(tensor_of({"B", "T", "H", "V"}), {1, tokens, heads, size},
                           figures.worst_block, figures.worst_block_end),
            "B 0, T 0–63, H 1, V 0");
}

TEST(Compare, ALongLastAxisIsCut) {
  const std::vector<double> truth = normal(4096);
  std::vector<double> output = truth;
  for (size_t i = 1024; i < 1152; ++i) output[i] = 0;
  EXPECT_NEAR(errors_of(output, truth, {4096}).row, 1, 1e-12);
  // The last piece is shorter.
  std::vector<double> tail = normal(130), wrong = tail;
  wrong[129] = 0;
  EXPECT_GT(errors_of(wrong, tail, {130}).row, 0.05);
}

TEST(Compare, NaNAndInfinityStandWhereTheOracleHasThem) {
  std::vector<double> truth = normal(256);
  truth[3] = std::nan("");
  truth[5] = -infinity;
  EXPECT_EQ(errors_of(truth, truth, {2, 128}).not_finite, "");
  EXPECT_EQ(errors_of(truth, truth, {2, 128}).block, 0);
  std::vector<double> output = truth;
  output[3] = 1;
  EXPECT_EQ(errors_of(output, truth, {2, 128}).not_finite, "element 3 is 1 and should be nan");
  output = truth;
  output[200] = std::nan("");
  EXPECT_NE(errors_of(output, truth, {2, 128}).not_finite, "");
  output = truth;
  output[5] = infinity;
  EXPECT_NE(errors_of(output, truth, {2, 128}).not_finite, "");
  // Beside a NaN that is right, an error still counts.
  output = truth;
  output[4] += 1;
  EXPECT_GT(errors_of(output, truth, {2, 128}).row, 0.05);
}

TEST(Compare, SquaresThatOverflowAreAnError) {
  const std::vector<double> truth(128, 1e200), output(128, 2e200);
  EXPECT_EQ(errors_of(output, truth, {128}).block, infinity);
}

TEST(Compare, ZeroTruthAllowsNoError) {
  const std::vector<double> truth(128, 0.0);
  std::vector<double> output = truth;
  EXPECT_EQ(errors_of(output, truth, {128}).block, 0);
  output[7] = 1e-30;
  EXPECT_EQ(errors_of(output, truth, {128}).block, infinity);
}

TEST(Compare, NothingToCompareIsRight) { EXPECT_EQ(errors_of({}, {}, {0, 64}).block, 0); }

TEST(Compare, TheBoundComesFromTheEmulationWithinMinimumAndCap) {
  Tolerance tolerance;
  tolerance.factor = 2;
  tolerance.minimum = 1e-6;
  tolerance.default_cap = 1e-3;
  tolerance.cap = {{"ht", 1e-5}};
  ErrorFigures honest;
  honest.block = 1e-4;
  EXPECT_DOUBLE_EQ(bound_of(tolerance, "o", honest).block, 2e-4);
  EXPECT_DOUBLE_EQ(bound_of(tolerance, "ht", honest).block, 1e-5);
  honest.block = 0;
  EXPECT_DOUBLE_EQ(bound_of(tolerance, "o", honest).block, 1e-6);
}

TEST(Compare, ABrokenBoundNamesThePlace) {
  const std::vector<double> truth = normal(200 * 8);
  std::vector<double> output = truth;
  for (size_t i = 130 * 8; i < 131 * 8; ++i) output[i] = 0;
  const ErrorFigures figures = errors_of(output, truth, {200, 8});
  const std::string why =
      broken_bound(figures, {1e-3, 1e-3, 1e-1}, tensor_of({"T", "V"}), {200, 8});
  EXPECT_NE(why.find("output o: relative error"), std::string::npos) << why;
  EXPECT_NE(why.find("T 128–191, V 0"), std::string::npos) << why;
  EXPECT_EQ(broken_bound(figures, {2, 2, 100}, tensor_of({"T", "V"}), {200, 8}), "");
}

}  // namespace
}  // namespace marathon
