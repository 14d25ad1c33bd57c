#include "core/state.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/random.h"

namespace marathon {
namespace {

// Applies payloads with a growing sequence, as a log would hold them.
class Fold {
 public:
  Fold& add(const Payload& payload) {
    Event event;
    event.sequence = ++sequence_;
    event.recorded_at_us = 1000 * sequence_;
    event.hash = "h" + std::to_string(sequence_);
    apply(state_, event, payload);
    return *this;
  }
  Fold& judged(int64_t n, VerdictKind kind, double speedup) {
    const std::string name = "c" + std::to_string(n);
    CandidateAdded added;
    added.candidate = name;
    EvaluationFinished finished{n, name, "k" + std::to_string(n), {}, static_cast<double>(n)};
    finished.verdict.kind = kind;
    finished.verdict.speedup = {speedup, speedup - 0.1, speedup + 0.1};
    finished.verdict.reasons = {"reason"};
    return add(added).add(EvaluationStarted{n, name, "", "k" + std::to_string(n), 1}).add(finished);
  }
  const State& state() const { return state_; }
  State& mutable_state() { return state_; }

 private:
  State state_;
  int64_t sequence_ = 0;
};

RunStarted started() {
  RunStarted start;
  start.run = "r";
  start.task_name = "t";
  start.budget = {60, 0, 0};
  start.target = {2.0, "twice"};
  start.workspace = {{"a.cc", "h1"}};
  start.start_candidate = "c1";
  return start;
}

TEST(State, LedgerIncumbentAndGoal) {
  Fold fold;
  fold.add(started())
      .judged(1, VerdictKind::same, 1.0)
      .add(IncumbentChanged{"c1", "", {1, 0.9, 1.1}, {}, 1});
  EXPECT_FALSE(progress_of(fold.state()).goal_met);
  fold.judged(2, VerdictKind::faster, 2.5)
      .add(IncumbentChanged{"c2", "c1", {2.5, 2.4, 2.6}, {}, 2})
      .judged(3, VerdictKind::wrong, 0);
  const State& state = fold.state();
  ASSERT_EQ(state.attempts.size(), 3u);
  EXPECT_TRUE(state.attempts[1].became_incumbent);
  EXPECT_EQ(state.incumbent->attempt, 2);
  EXPECT_TRUE(progress_of(state).goal_met);
  EXPECT_EQ(state.evaluations_since_gain, 1);
  EXPECT_EQ(state.spent.evaluations, 3);
  EXPECT_EQ(state.unknown_events, 0);
}

TEST(State, ASecondOutcomeForOneKeyIsIgnoredAndCounted) {
  Fold fold;
  fold.add(started()).judged(1, VerdictKind::same, 1.0);
  fold.add(EvaluationFinished{1, "c1", "k1", {}, 1});
  EXPECT_EQ(fold.state().spent.evaluations, 1);
  EXPECT_EQ(fold.state().unknown_events, 1);
}

TEST(State, OneEndingForEver) {
  Fold fold;
  fold.add(started()).add(RunEnded{Ending::improved, "a", 1}).add(RunEnded{Ending::failed, "b", 2});
  EXPECT_EQ(fold.state().ending->ending, Ending::improved);
  EXPECT_EQ(fold.state().unknown_events, 1);
  fold.judged(1, VerdictKind::same, 1.0);  // a person's attempt is welcome after the ending
  EXPECT_EQ(fold.state().attempts.size(), 1u);
}

TEST(State, ActiveTimeAddsUpOverProcesses) {
  Fold fold;
  fold.add(started()).judged(1, VerdictKind::same, 1.0).judged(2, VerdictKind::same, 1.0);
  EXPECT_DOUBLE_EQ(fold.state().spent.active_s, 2);
  fold.add(RunResumed{}).judged(3, VerdictKind::same, 1.0);
  EXPECT_DOUBLE_EQ(fold.state().spent.active_s, 5);  // 2 before, 3 in the new process
}

TEST(State, WorkspaceFollowsTheTools) {
  Fold fold;
  fold.add(started())
      .add(TurnStarted{1})
      .add(TurnFinished{1, "", {{"x", "write_file", "{}"}}, 0, 0, 0, false});
  fold.add(ToolStarted{1, "x", "write_file"});
  EXPECT_TRUE(fold.state().tool_open);
  fold.add(ToolFinished{1, "x", "write_file", true, "", {{"b.cc", "h2"}, {"a.cc", ""}}, 0});
  EXPECT_EQ(fold.state().workspace, (std::map<std::string, std::string>{{"b.cc", "h2"}}));
  EXPECT_FALSE(fold.state().tool_open);
  EXPECT_TRUE(fold.state().pending_calls.empty());
}

// Random sequences of events: folding in one go equals folding over a snapshot at any point.
AgentConfigured agent(const std::string& api) {
  AgentConfigured configured;
  configured.api = api;
  configured.model = "m";
  configured.context_window = 1000;
  configured.max_output_tokens = 100;
  configured.prices = {3, 0.5, 4, 15};
  return configured;
}

TurnFinished answer(int64_t turn, int64_t tokens) {
  TurnFinished finished{turn, "t", {{"c", "evaluate", "{}"}}, tokens, 10, 0, false};
  finished.usage_known = true;
  finished.request_bytes = 4 * tokens;
  finished.usd = 0.5;
  return finished;
}

TEST(State, ExchangesAreKeptFromTheLastCompactionOn) {
  Fold fold;
  fold.add(started()).add(agent("openai"));
  for (int64_t turn = 1; turn <= 4; ++turn) {
    fold.add(TurnStarted{turn}).add(answer(turn, 100 * turn));
    fold.add(ToolFinished{turn, "c", "evaluate", turn != 2, "r" + std::to_string(turn), {}, 0});
  }
  ASSERT_EQ(fold.state().exchanges.size(), 4u);
  EXPECT_FALSE(fold.state().exchanges[1].answers.at(0).ok);
  EXPECT_EQ(fold.state().exchanges[3].answers.at(0).result, "r4");
  EXPECT_EQ(fold.state().request_tokens, 400);
  fold.add(ContextCleared{5, 3}).add(ContextCompacted{5, 3, "memory", "summary", "hard", 900, 90});
  ASSERT_EQ(fold.state().exchanges.size(), 1u);
  EXPECT_EQ(fold.state().exchanges[0].turn, 4);
  EXPECT_EQ(fold.state().memory, "memory");
  EXPECT_EQ(fold.state().compactions, 1);
  EXPECT_EQ(fold.state().spent.tokens(), 1000 + 40);
  EXPECT_DOUBLE_EQ(fold.state().spent.usd, 2);
}

TEST(State, AnAgentWithoutAContextLeavesNoExchanges) {
  Fold fold;
  fold.add(started()).add(TurnStarted{1}).add(answer(1, 100));
  EXPECT_TRUE(fold.state().exchanges.empty());
}

TEST(State, ARequestThatWasLostWithItsProcessIsChargedHigh) {
  Fold fold;
  fold.add(started()).add(agent("openai")).add(TurnStarted{1}).add(answer(1, 200));
  const double before = fold.state().spent.usd;
  fold.add(RunResumed{1, "h", "v", "resumed", 0});
  EXPECT_DOUBLE_EQ(fold.state().spent.usd, before) << "no request was open";
  fold.add(TurnStarted{2}).add(RunResumed{1, "h", "v", "resumed", 0});
  EXPECT_DOUBLE_EQ(fold.state().spent.usd, before + 1e-6 * (200 * 3 + 100 * 15));
  EXPECT_EQ(fold.state().spent.failed_requests, 1);
  Fold scripted;
  scripted.add(started()).add(agent("")).add(TurnStarted{1});
  scripted.add(RunResumed{1, "h", "v", "resumed", 0});
  EXPECT_EQ(scripted.state().spent.tokens(), 0) << "a script costs nothing";
}

TEST(State, MoreBudgetLetsAnAgentGoOnThatCouldNotAffordARequest) {
  Fold fold;
  TurnFinished last = answer(1, 100);
  last.budget_spent = "the next request could cost $1";
  fold.add(started()).add(agent("openai")).add(TurnStarted{1}).add(last);
  EXPECT_FALSE(fold.state().budget_spent.empty());
  fold.add(BudgetChanged{{0, 0, 0, 50}, "person"});
  EXPECT_TRUE(fold.state().budget_spent.empty());
}

TEST(State, ASnapshotAnywhereChangesNothing) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    Random random(seed);
    std::vector<Payload> events = {started()};
    for (int64_t n = 1; n <= 40; ++n) {
      const std::string name = "c" + std::to_string(random.below(20)),
                        key = "k" + std::to_string(n);
      switch (random.below(13)) {
        case 0:
          events.push_back(TurnStarted{n});
          break;
        case 1:
          events.push_back(
              TurnFinished{n, "t", {{key, "evaluate", "{}"}}, 1, 1, 0.5, random.below(9) == 0});
          break;
        case 2:
          events.push_back(ToolFinished{n, key, "evaluate", true, "r", {{name, key}}, 1});
          break;
        case 3:
          events.push_back(CandidateAdded{name, "", {}, "", "h", "c", "search", {{"A", n}}});
          break;
        case 4:
          events.push_back(EvaluationStarted{n, name, "", key, 1});
          break;
        case 5:
          events.push_back(IncumbentChanged{name, "", {1, 1, 1}, {}, n});
          break;
        case 6:
          events.push_back(NoteAdded{key, "agent"});
          break;
        case 7:
          events.push_back(agent(random.below(3) == 0 ? "" : "openai"));
          break;
        case 8: {
          events.push_back(TurnStarted{n});
          TurnFinished turn{n, "t", {{key, "evaluate", "{}"}}, 3, 2, 0.5, false};
          turn.blocks = "[]";
          turn.request_bytes = 40;
          turn.usage_known = random.below(2) == 0;
          turn.usd = 0.25;
          events.push_back(turn);
          events.push_back(ToolFinished{n, key, "evaluate", true, "r", {}, 1});
          break;
        }
        case 9:
          events.push_back(ModelFailed{n, "network", "cut", 0, 3, 4, 0.5, 1});
          events.push_back(ModelWaited{n, "cut", 2});
          break;
        case 10:
          events.push_back(ContextCompacted{n, n - 5, "m" + key, "", "hard", 10, 5});
          events.push_back(ContextCleared{n, n - 2});
          break;
        case 11:
          events.push_back(AdviceGiven{n, "probe", "", 0, "look back"});
          events.push_back(GoalPaused{random.below(2) == 0, "person"});
          break;
        case 12:
          events.push_back(TurnStarted{n});
          events.push_back(RunResumed{1, "h", "v", "resumed", 0});
          break;
      }
    }
    const size_t cut = random.below(events.size());
    Fold whole, resumed;
    for (const Payload& payload : events) whole.add(payload);
    for (size_t i = 0; i < events.size(); ++i) {
      if (i == cut) {
        Result<State> restored = state_from_json(to_json(resumed.state()));
        ASSERT_TRUE(restored) << restored.error().what;
        resumed.mutable_state() = std::move(*restored);
      }
      resumed.add(events[i]);
    }
    EXPECT_EQ(dump_json(to_json(resumed.state())), dump_json(to_json(whole.state())))
        << "seed " << seed << " cut " << cut;
  }
}

TEST(State, ADamagedSnapshotIsAnErrorNotACrash) {
  Json json = to_json(Fold().add(started()).judged(1, VerdictKind::same, 1).state());
  json["attempts"][0].erase("number");
  EXPECT_EQ(state_from_json(json).error().fault, Fault::corrupt);
  EXPECT_FALSE(state_from_json(Json::object()));
  EXPECT_FALSE(state_from_json(Json::array()));
}

TEST(State, FingerprintIgnoresTimesAndNothingElse) {
  const auto fingerprint = [](double active_s, VerdictKind kind) {
    Fold fold;
    fold.add(started()).judged(1, kind, 1.0).add(RunEnded{Ending::plateau, "e", active_s});
    return fold_fingerprint(fold.state());
  };
  EXPECT_EQ(fingerprint(1, VerdictKind::same), fingerprint(99, VerdictKind::same));
  EXPECT_NE(fingerprint(1, VerdictKind::same), fingerprint(1, VerdictKind::slower));
}

TEST(State, StatusHasEveryPromisedField) {
  const Json status = status_json(Fold().add(started()).state());
  for (const char* field : {"run", "task", "state", "ending", "evaluations", "tool_calls", "turns",
                            "best", "goal", "budget", "events"}) {
    EXPECT_TRUE(status.contains(field)) << field;
  }
}

}  // namespace
}  // namespace marathon
