#include "run/stop_rule.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/clock.h"

namespace marathon {

namespace {

// Without any budget a run would never end: so many evaluations without a gain end it.
constexpr int64_t patience_without_budget = 200;
constexpr double limit_share = 0.9;

std::string budget_spent(const State& state, double active_s) {
  const Budget& budget = state.budget;
  if (budget.evaluations > 0 && state.spent.evaluations >= budget.evaluations)
    return fmt::format("all {} evaluations are spent", budget.evaluations);
  if (budget.tool_calls > 0 && state.spent.tool_calls >= budget.tool_calls)
    return fmt::format("all {} tool calls are spent", budget.tool_calls);
  if (budget.hours > 0 && active_s >= budget.hours * 3600)
    return fmt::format("{} of active time are spent", format_duration(active_s));
  return "";
}

std::string why_over(const State& state, double active_s) {
  const std::string spent = budget_spent(state, active_s);
  if (!spent.empty()) return spent;
  if (state.agent_exhausted && state.pending_calls.empty())
    return "the agent has nothing more to propose";
  const bool unlimited =
      state.budget.evaluations == 0 && state.budget.tool_calls == 0 && state.budget.hours == 0;
  if (unlimited && state.evaluations_since_gain >= patience_without_budget) {
    return fmt::format("{} evaluations without a gain, and no budget was set",
                       state.evaluations_since_gain);
  }
  return "";
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
  const bool met = state.incumbent && state.incumbent->speedup.low >= state.target.speedup;
  return fmt::format("; the goal of {:.2f}× is {}", state.target.speedup, met ? "met" : "not met");
}

}  // namespace

bool is_at_limit(const Verdict& verdict) {
  int64_t listed = 0;
  for (const ShapeResult& shape : verdict.shapes) {
    if (shape.set != "listed" || shape.time_us <= 0) continue;
    ++listed;
    if (shape.floor_us < limit_share * shape.time_us) return false;
  }
  return listed > 0;
}

std::optional<RunEnded> ending_due(const State& state, bool at_limit, double active_s) {
  std::string why = why_over(state, active_s);
  if (at_limit) why = "the best is within 10 % of the floor on every listed shape";
  if (why.empty()) return std::nullopt;
  RunEnded ended;
  ended.active_s = active_s;
  ended.evidence = fmt::format("{}; {}{}", why, best_text(state), goal_text(state));
  if (progress_of(state).goal_met)
    ended.ending = Ending::goal_met;
  else if (at_limit)
    ended.ending = Ending::limit_reached;
  else if (has_gain(state))
    ended.ending = Ending::improved;
  else if (!budget_spent(state, active_s).empty())
    ended.ending = Ending::budget_exhausted;
  else
    ended.ending = Ending::plateau;
  return ended;
}

}  // namespace marathon
