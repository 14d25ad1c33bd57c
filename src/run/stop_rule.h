// When a run ends, and with which ending. Pure. Inside of run/ only.
//
// The whole budget is used: a goal that is met is the kind of the ending, not its moment, because a
// search finds most of its gain late and the budget was set by a person. Before the budget is spent
// a run ends only
//   - when the best is within 10 % of the floor on every listed shape (nothing is left to gain),
//   - when the agent has nothing more to propose, or its claim to be done is borne out,
//   - when no budget was set at all and 200 evaluations brought no gain,
//   - when the agent does not act: no tool call in 10 turns, or no evaluation in 300 tool calls.
// Refused: "k evaluations without a gain" beside a budget. The embedded search restarts by itself
// on a stall, and on the spaces measured for docs/performance.md late gains are common.
#pragma once

#include <optional>

#include "core/state.h"

namespace marathon {

// What is not in the fold, since this process began: a guard, not a fact.
struct Patience {
  int64_t turns_without_call = 0, calls_without_evaluation = 0;
};

struct StopRule {
  bool at_limit = false;      // see is_at_limit()
  bool stop_at_goal = false;  // end as soon as the goal is met
  double active_s = 0;        // of the whole run
  Patience patience = {};
};

// Nothing: go on. RunEnded.active_s is left to the caller.
std::optional<RunEnded> ending_due(const State& state, const StopRule& rule);

// Within 10 % of the floor on every listed shape.
bool is_at_limit(const Verdict& verdict);

// "all 60 evaluations are spent", or empty.
std::string budget_spent(const State& state, double active_s);

}  // namespace marathon
