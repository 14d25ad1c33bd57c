#include "search_score.h"

#include <gtest/gtest.h>

namespace marathon {
namespace {

TEST(SearchScore, ExpectedRandomBestIsTheOrderStatisticWithoutReplacement) {
  // {1, 2, 3}: best of 1 is 2; of 2: {1,2} 2, {1,3} 3, {2,3} 3 → 8/3; of 3: 3.
  const std::vector<double> expected = expected_random_best({3, 1, 2});
  ASSERT_EQ(expected.size(), 3u);
  EXPECT_NEAR(expected[0], 2, 1e-12);
  EXPECT_NEAR(expected[1], 8.0 / 3, 1e-12);
  EXPECT_NEAR(expected[2], 3, 1e-12);
}

TEST(SearchScore, RandomSearchItselfScoresZeroAndTheOptimumAtOnceScoresOne) {
  std::vector<double> values;
  for (int i = 0; i < 100; ++i) values.push_back(1 + 0.01 * i * i);
  const std::vector<double> random = expected_random_best(values);
  const int64_t cutoff = cutoff_of(values);
  EXPECT_GT(cutoff, 1);
  EXPECT_LT(cutoff, 100);
  EXPECT_NEAR(score_of(random, random, 1 + 0.01 * 99 * 99, cutoff), 0, 1e-9);
  EXPECT_NEAR(
      score_of(std::vector<double>(100, 1 + 0.01 * 99 * 99), random, 1 + 0.01 * 99 * 99, cutoff), 1,
      1e-9);
}

}  // namespace
}  // namespace marathon
