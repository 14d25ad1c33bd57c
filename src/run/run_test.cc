// Whole runs, from the start to the one ending.
#include <nlohmann/json.hpp>

#include "run/run_fixture.h"

namespace marathon {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

TEST_F(RunTest, ASearchUsesItsWholeBudgetAndEndsOnce) {
  const RunOutcome outcome = must(start_run(options(), {}));
  const State& state = outcome.state;
  EXPECT_EQ(state.spent.evaluations, 12);
  EXPECT_EQ(state.attempts.size(), 12U);
  ASSERT_TRUE(state.ending);
  EXPECT_EQ(state.ending->ending, Ending::goal_met) << state.ending->evidence;
  EXPECT_THAT(state.ending->evidence, HasSubstr("all 12 evaluations are spent"));
  EXPECT_EQ(all_of<RunEnded>().size(), 1U);
  EXPECT_EQ(kinds().back(), "run.ended");
  EXPECT_EQ(state.unknown_events, 0);
  expect_clean();
}

TEST_F(RunTest, TheStartIsJudgedFirstAndBecomesTheIncumbent) {
  start({});
  EXPECT_THAT(kinds(), ElementsAre("run.started", "candidate.added", "evaluation.started",
                                   "evaluation.stage", "evaluation.finished", "incumbent.changed",
                                   "turn.started", "turn.finished", "run.ended"));
  const IncumbentChanged first = all_of<IncumbentChanged>().front();
  EXPECT_EQ(first.previous, "");
  EXPECT_LT(first.speedup.value, 1);  // slower than the baseline, and still what is to be beaten
  EXPECT_EQ(all_of<RunEnded>().front().ending, Ending::plateau);
}

TEST_F(RunTest, OneCandidateIsIntentActOutcome) {
  start({{{"evaluate", evaluate_call(R"({"A": 4, "BB": 2, "CCC": 1})")}}});
  const std::vector<std::string> all = kinds();
  const std::vector<std::string> turn(all.begin() + 6, all.end());
  EXPECT_THAT(turn, ElementsAre("turn.started", "turn.finished", "tool.started", "candidate.added",
                                "evaluation.started", "evaluation.stage", "evaluation.finished",
                                "incumbent.changed", "tool.finished", "turn.started",
                                "turn.finished", "run.ended"));
}

TEST_F(RunTest, TheJudgeSeesCandidateAndIncumbentAndSecretSeeds) {
  std::vector<std::string> params;
  executor_.before = [&](const EvaluationRequest& request, std::stop_token) -> Status {
    params.push_back(TRY(read_file(request.candidate_folder / "params.toml")));
    EXPECT_FALSE(std::filesystem::exists(request.candidate_folder / "readme.txt"));
    return {};
  };
  start(
      {{{"evaluate", evaluate_call(R"({"A": 2})")}}, {{"evaluate", evaluate_call(R"({"A": 4})")}}});
  EXPECT_THAT(params, ElementsAre("A = 1\nBB = 1\nCCC = 0\n", "A = 2\nBB = 1\nCCC = 0\n",
                                  "A = 4\nBB = 1\nCCC = 0\n"));
  ASSERT_EQ(executor_.requests.size(), 3U);
  EXPECT_TRUE(executor_.requests[0].incumbent_folder.empty());
  EXPECT_FALSE(executor_.requests[1].incumbent_folder.empty());
  EXPECT_NE(executor_.requests[0].seed, executor_.requests[1].seed);
  EXPECT_EQ(executor_.requests[0].seed, all_of<EvaluationStarted>()[0].seed);
}

TEST_F(RunTest, CandidateHashesAreTheJudges) {
  must(make_folders(task() / "start" / "extra"));
  must(write_file(task() / "start" / "extra" / "a.h", "int a;"));
  const RunOutcome outcome = start({});
  const LoadedTask loaded = must(load_task(task()));
  EXPECT_EQ(outcome.state.start->start_candidate,
            must(candidate_hash(loaded.task, task() / "start")));
}

TEST_F(RunTest, ACandidateAlreadyJudgedIsAnsweredFromTheLog) {
  const std::string same = evaluate_call(R"({"A": 4})");
  const RunOutcome outcome = start({{{"evaluate", same}}, {{"evaluate", same}}});
  EXPECT_EQ(outcome.state.spent.evaluations, 2);
  EXPECT_EQ(executor_.requests.size(), 2U);
  const Json first = must(parse_json(results()[0])), again = must(parse_json(results()[1]));
  EXPECT_FALSE(first.contains("note"));
  EXPECT_THAT(json_string(again, "note"), HasSubstr("attempt #2"));
  EXPECT_EQ(first["verdict"], again["verdict"]);
  EXPECT_EQ(all_of<CandidateAdded>().size(), 2U);
}

TEST_F(RunTest, AmbiguousIsJudgedOnceMoreAtOnceAndNotForEver) {
  const std::string write = R"({"path": "solution.cc", "content": "ambiguous"})";
  const RunOutcome outcome = start({{{"write_file", write}},
                                    {{"evaluate", evaluate_call()}},
                                    {{"evaluate", evaluate_call()}},
                                    {{"evaluate", evaluate_call()}}});
  EXPECT_EQ(executor_.requests.size(), 5U);  // the start, and twice two times
  EXPECT_EQ(outcome.state.attempts.size(), 2U);
  EXPECT_THAT(results()[2], Not(HasSubstr("judged before")));
  EXPECT_THAT(results()[3], HasSubstr("judged before"));
  EXPECT_EQ(outcome.state.unknown_events, 0);
  expect_clean();
}

TEST_F(RunTest, AmbiguousAtTheEndOfTheBudgetStaysSo) {
  must(write_file(task() / "start" / "solution.cc", "ambiguous"));
  RunOptions with = options();
  with.budget.evaluations = 1;
  EXPECT_EQ(must(start_run(with, {})).state.spent.evaluations, 1);
}

TEST_F(RunTest, AnAmbiguousStartIsJudgedOnceMore) {
  int64_t disturbed = 0;
  executor_.disturb = [&](const EvaluationRequest&) { return ++disturbed == 1; };
  const RunOutcome outcome = start({});
  EXPECT_EQ(outcome.state.spent.evaluations, 2);
  EXPECT_TRUE(outcome.state.incumbent);
}

TEST_F(RunTest, WhatIsNotConfirmedDoesNotBecomeTheBest) {
  const auto source = [](const std::string& text) {
    return fmt::format(R"({{"path": "solution.cc", "content": "{}"}})", text);
  };
  const RunOutcome outcome = start({{{"write_file", source("speed 5 unconfirmed")}},
                                    {{"evaluate", evaluate_call()}},
                                    {{"write_file", source("speed 9 suspicious")}},
                                    {{"evaluate", evaluate_call()}},
                                    {{"write_file", source("speed 3")}},
                                    {{"evaluate", evaluate_call()}}});
  EXPECT_EQ(outcome.state.incumbent->attempt, 4);
  EXPECT_EQ(outcome.state.ending->ending, Ending::goal_met);
}

TEST_F(RunTest, WithoutAPassingStartTheFirstThatPassesIsTheBest) {
  must(write_file(task() / "start" / "solution.cc", "wrong"));
  const RunOutcome outcome =
      start({{{"write_file", R"({"path": "solution.cc", "content": "speed 0.5"})"}},
             {{"evaluate", evaluate_call()}}});
  ASSERT_TRUE(outcome.state.incumbent);
  EXPECT_EQ(outcome.state.incumbent->attempt, 2);
  EXPECT_TRUE(executor_.requests[1].incumbent_folder.empty());
  EXPECT_EQ(outcome.state.ending->ending, Ending::improved);
}

TEST_F(RunTest, NothingPasses) {
  must(write_file(task() / "start" / "solution.cc", "crash"));
  const RunOutcome outcome = must(start_run(options(), {}));
  EXPECT_FALSE(outcome.state.incumbent);
  EXPECT_EQ(outcome.state.ending->ending, Ending::budget_exhausted);
  EXPECT_THAT(outcome.state.ending->evidence, HasSubstr("no candidate passed"));
  const Status best = write_candidate(home(), "tiny-run", "", temp_.path() / "out");
  ASSERT_FALSE(best);
  EXPECT_EQ(best.error().fault, Fault::not_found);
}

}  // namespace marathon
