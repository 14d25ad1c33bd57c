#include "run/stop_rule.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/clock.h"

namespace marathon {

namespace {

constexpr int64_t patience_without_budget = 200;
constexpr int64_t max_turns_without_call = 10, max_calls_without_evaluation = 300;
constexpr double limit_share = 0.9;

bool has_budget(const Budget& budget) {
  return budget.evaluations > 0 || budget.tool_calls > 0 || budget.hours > 0 || budget.usd > 0 ||
         budget.tokens > 0;
}

bool has_gain(const State& state) {
  return state.incumbent && state.start &&
         state.incumbent->candidate != state.start->start_candidate;
}

std::string best_text(const State& state) {
  if (!state.incumbent) return "no candidate passed";
  const Interval& best = state.incumbent->speedup;
  return fmt::format("best {:.2f}× (95 % {:.2f}–{:.2f}), attempt #{}", best.value, best.low,
                     best.high, state.incumbent->attempt);
}

std::string goal_text(const State& state) {
  if (state.target.speedup <= 0) return "";
  return fmt::format("; the goal of {:.2f}× is {}", state.target.speedup,
                     progress_of(state).goal_met ? "met" : "not met");
}

std::string stuck(const Patience& patience) {
  if (patience.turns_without_call >= max_turns_without_call)
    return fmt::format("the agent called no tool in {} turns", patience.turns_without_call);
  if (patience.calls_without_evaluation >= max_calls_without_evaluation)
    return fmt::format("{} tool calls without an evaluation", patience.calls_without_evaluation);
  return "";
}

struct Why {
  std::string text;  // empty: go on
  std::optional<Ending> kind;
};

Why why_over(const State& state, const StopRule& rule) {
  const bool goal_met = progress_of(state).goal_met;
  if (rule.at_limit)
    return {"the best is within 10 % of the floor on every listed shape", Ending::limit_reached};
  if (std::string spent = budget_spent(state, rule.active_s); !spent.empty())
    return {std::move(spent), Ending::budget_exhausted};
  if (goal_met && rule.stop_at_goal) return {"the goal is met, and that was asked for", {}};
  if (state.agent_exhausted && state.pending_calls.empty())
    return {"the agent has nothing more to propose", Ending::plateau};
  if (!has_budget(state.budget) && state.evaluations_since_gain >= patience_without_budget)
    return {fmt::format("{} evaluations without a gain, and no budget was set",
                        state.evaluations_since_gain),
            Ending::plateau};
  return {stuck(rule.patience), Ending::blocked};
}

}  // namespace

std::string budget_spent(const State& state, double active_s) {
  const Budget& budget = state.budget;
  if (budget.evaluations > 0 && state.spent.evaluations >= budget.evaluations)
    return fmt::format("all {} evaluations are spent", budget.evaluations);
  if (budget.tool_calls > 0 && state.spent.tool_calls >= budget.tool_calls)
    return fmt::format("all {} tool calls are spent", budget.tool_calls);
  if (budget.hours > 0 && active_s >= budget.hours * 3600)
    return fmt::format("{} of active time are spent", format_duration(active_s));
  if (budget.usd > 0 && state.spent.usd >= budget.usd)
    return fmt::format("all ${:.2f} are spent", budget.usd);
  if (budget.tokens > 0 && state.spent.tokens() >= budget.tokens)
    return fmt::format("all {} tokens are spent", budget.tokens);
  return state.budget_spent;
}

bool is_at_limit(const Verdict& verdict) {
  int64_t listed = 0;
  for (const ShapeResult& shape : verdict.shapes) {
    if (shape.set != "listed") continue;
    if (shape.time_us <= 0 || shape.floor_us < limit_share * shape.time_us) return false;
    ++listed;
  }
  return listed > 0;
}

std::optional<RunEnded> ending_due(const State& state, const StopRule& rule) {
  const Why why = why_over(state, rule);
  if (why.text.empty()) return std::nullopt;
  RunEnded ended;
  ended.evidence = fmt::format("{}; {}{}", why.text, best_text(state), goal_text(state));
  // What was reached says more than what ended it; only the floor says more than a gain.
  if (progress_of(state).goal_met) {
    ended.ending = Ending::goal_met;
  } else if (why.kind == Ending::limit_reached || why.kind == Ending::blocked) {
    ended.ending = *why.kind;
  } else {
    ended.ending = has_gain(state) ? Ending::improved : why.kind.value_or(Ending::plateau);
  }
  return ended;
}

}  // namespace marathon
