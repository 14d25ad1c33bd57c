#include "run/stop_rule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace marathon {

using testing::HasSubstr;

namespace {

// 10 of 60 evaluations, a best at 2.0 (1.9–2.1) by attempt 3, the goal at 3.
State running() {
  State state;
  state.start = RunStarted{};
  state.start->start_candidate = "start";
  state.budget.evaluations = 60;
  state.target.speedup = 3;
  state.spent.evaluations = 10;
  state.incumbent = Incumbent{"better", {2.0, 1.9, 2.1}, 3, 3};
  return state;
}

Ending ending_of(const State& state, const StopRule& rule = {}) {
  const std::optional<RunEnded> ended = ending_due(state, rule);
  EXPECT_TRUE(ended);
  return ended ? ended->ending : Ending::failed;
}

Verdict with_shapes(std::vector<std::pair<double, double>> time_and_floor) {
  Verdict verdict;
  for (const auto& [time_us, floor_us] : time_and_floor) {
    ShapeResult shape;
    shape.set = "listed";
    shape.time_us = time_us;
    shape.floor_us = floor_us;
    verdict.shapes.push_back(shape);
  }
  return verdict;
}

}  // namespace

TEST(StopRule, WithBudgetLeftItGoesOn) { EXPECT_FALSE(ending_due(running(), {})); }

TEST(StopRule, AMetGoalIsTheKindOfTheEndingNotItsMoment) {
  State state = running();
  state.incumbent->speedup.low = 3.0;
  EXPECT_FALSE(ending_due(state, {}));
  EXPECT_EQ(ending_of(state, {.stop_at_goal = true}), Ending::goal_met);
  state.spent.evaluations = 60;
  EXPECT_EQ(ending_of(state), Ending::goal_met);
}

TEST(StopRule, TheGoalIsMetByTheLowerBound) {
  State state = running();
  state.incumbent->speedup = {3.5, 2.99, 4};
  state.spent.evaluations = 60;
  EXPECT_EQ(ending_of(state), Ending::improved);
  EXPECT_THAT(ending_due(state, {})->evidence, HasSubstr("the goal of 3.00× is not met"));
}

TEST(StopRule, EachLimitOfTheBudgetEndsTheRun) {
  State state = running();
  state.budget.tool_calls = 5;
  state.spent.tool_calls = 5;
  EXPECT_EQ(ending_of(state), Ending::improved);
  state = running();
  state.budget.hours = 2;
  EXPECT_FALSE(ending_due(state, {.active_s = 7199}));
  EXPECT_EQ(ending_of(state, {.active_s = 7200}), Ending::improved);
  state = running();
  state.spent.evaluations = 60;
  state.incumbent->candidate = "start";
  EXPECT_EQ(ending_of(state), Ending::budget_exhausted);
}

TEST(StopRule, TheFloorEndsARunThatHasBudget) {
  EXPECT_EQ(ending_of(running(), {.at_limit = true}), Ending::limit_reached);
}

TEST(StopRule, AnAgentWithoutProposalsEndsItWhenItsCallsAreAnswered) {
  State state = running();
  state.agent_exhausted = true;
  state.pending_calls.push_back({"1", "evaluate", "{}"});
  EXPECT_FALSE(ending_due(state, {}));
  state.pending_calls.clear();
  EXPECT_EQ(ending_of(state), Ending::improved);
  state.incumbent.reset();
  EXPECT_EQ(ending_of(state), Ending::plateau);
}

TEST(StopRule, ABudgetIsUsedHoweverLongNothingIsGained) {
  State state = running();
  state.budget.evaluations = 1000;
  state.evaluations_since_gain = 900;
  EXPECT_FALSE(ending_due(state, {}));
  state.budget = {};
  state.incumbent->candidate = "start";
  EXPECT_EQ(ending_of(state), Ending::plateau);
}

TEST(StopRule, AnAgentThatDoesNotActIsEnded) {
  EXPECT_EQ(
      ending_of(running(), {.patience = {.turns_without_call = 10, .calls_without_evaluation = 0}}),
      Ending::blocked);
  EXPECT_EQ(ending_of(running(),
                      {.patience = {.turns_without_call = 0, .calls_without_evaluation = 300}}),
            Ending::blocked);
}

TEST(StopRule, TheLimitIsWithinTenPercentOnEveryListedShape) {
  EXPECT_TRUE(is_at_limit(with_shapes({{100, 91}, {50, 46}})));
  EXPECT_FALSE(is_at_limit(with_shapes({{100, 91}, {50, 44}})));
  EXPECT_FALSE(is_at_limit(with_shapes({{100, 91}, {0, 0}})));
  EXPECT_FALSE(is_at_limit(with_shapes({})));
  Verdict hidden = with_shapes({{100, 91}, {50, 1}});
  hidden.shapes[1].set = "hidden";
  EXPECT_TRUE(is_at_limit(hidden));
}

}  // namespace marathon
