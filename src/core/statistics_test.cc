#include "core/statistics.h"

#include <gtest/gtest.h>

#include <cmath>

namespace marathon {
namespace {

TEST(Statistics, MedianAndDeviationByHand) {
  EXPECT_DOUBLE_EQ(median({3, 1, 2}), 2);
  EXPECT_DOUBLE_EQ(median({4, 1, 3, 2}), 2.5);
  EXPECT_TRUE(std::isnan(median({})));
  EXPECT_DOUBLE_EQ(median_absolute_deviation({1, 1, 2, 2, 4, 6, 9}), 1);
}

TEST(Statistics, GeometricMeanByHand) {
  const std::vector<double> values = {1, 4}, weights = {1, 1}, uneven = {3, 1};
  EXPECT_DOUBLE_EQ(geometric_mean(values, weights), 2);
  EXPECT_NEAR(geometric_mean(values, uneven), std::sqrt(2), 1e-12);
}

TEST(Statistics, OutliersAreDroppedByTheModifiedZScore) {
  EXPECT_EQ(without_outliers({10, 11, 10, 12, 11, 100}), (std::vector<double>{10, 11, 10, 12, 11}));
  EXPECT_EQ(without_outliers({5, 5, 5, 9}).size(), 4u) << "without spread nothing is an outlier";
}

TEST(Bootstrap, EqualSamplesGiveExactlyOne) {
  Random random(1);
  const std::vector<double> same(6, 100.0);
  const Interval ratio = bootstrap_ratio({{{same, same}}, {{same, same}}}, {}, random);
  EXPECT_DOUBLE_EQ(ratio.value, 1);
  EXPECT_DOUBLE_EQ(ratio.low, 1);
  EXPECT_DOUBLE_EQ(ratio.high, 1);
}

TEST(Bootstrap, WithoutSamplesThereIsNoInterval) {
  Random random(1);
  EXPECT_TRUE(std::isnan(bootstrap_ratio({}, {}, random).value));
  EXPECT_TRUE(std::isnan(bootstrap_ratio({{{{1.0}, {}}}}, {}, random).value));
}

// 300 simulated measurements of a true ratio of 2 with variance between restarts and inside them.
TEST(Bootstrap, TheIntervalCoversTheTruth) {
  Random noise(5), random(6);
  int covered = 0;
  for (int i = 0; i < 300; ++i) {
    std::vector<std::vector<PairedSamples>> restarts;
    for (int r = 0; r < 8; ++r) {
      const double above = 200 * (1 + 0.02 * noise.normal()),
                   below = 100 * (1 + 0.02 * noise.normal());
      PairedSamples samples;
      for (int s = 0; s < 8; ++s) {
        samples.numerator_ns.push_back(above * (1 + 0.01 * noise.normal()));
        samples.denominator_ns.push_back(below * (1 + 0.01 * noise.normal()));
      }
      restarts.push_back({samples});
    }
    const Interval ratio = bootstrap_ratio(restarts, {}, random, 400);
    covered += ratio.low <= 2 && 2 <= ratio.high ? 1 : 0;
  }
  EXPECT_GE(covered, 264) << "88 %";
  EXPECT_LE(covered, 297) << "99 %: an interval that always covers says nothing";
}

}  // namespace
}  // namespace marathon
