// State = fold(events). Every view (status, report, prompt) reads it; nothing else is kept.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/event.h"

namespace marathon {

// One line of the ledger.
struct Attempt {
  int64_t number = 0;  // 1, 2, 3 … in the order in which the candidates were added
  std::string candidate, parent, hypothesis, category, by, commit;
  Configuration configuration;
  int64_t evaluation = 0;         // 0: not evaluated
  int64_t evaluations = 0;        // how often it was judged: again only after `ambiguous`
  int64_t added_sequence = 0;     // of candidate.added, which names its files
  int64_t finished_sequence = 0;  // of evaluation.finished; 0: none yet
  int64_t recorded_at_us = 0;
  double active_s = 0;     // of the run, when the verdict came
  int64_t tool_calls = 0;  // of the run, before the one that asked for it
  std::optional<VerdictKind> verdict;
  Interval speedup, gain;
  std::string reason;            // the verdict's deciding reason, at most 300 characters
  std::string profile_sentence;  // what the profiler said first
  bool became_incumbent = false;
  bool elsewhere = false;  // its verdict came back from another machine
};

struct Spent {
  int64_t evaluations = 0, tool_calls = 0, turns = 0, input_tokens = 0, output_tokens = 0;
  double active_s = 0;
  int64_t cache_read_tokens = 0, cache_write_tokens = 0;
  double usd = 0;
  int64_t failed_requests = 0, estimated_requests = 0;  // no answer; usage not told by the server
  double waited_s = 0;                                  // for a model's server; not active

  int64_t tokens() const {
    return input_tokens + output_tokens + cache_read_tokens + cache_write_tokens;
  }
};

// A turn as later requests repeat it. Kept from the last compaction on, and only of agents that have
// a context (State::agent).
struct Exchange {
  int64_t turn = 0;
  std::string text, blocks;  // as in turn.finished
  std::vector<ToolCall> calls;
  struct Answer {
    std::string call, result;
    bool ok = true;
  };
  std::vector<Answer> answers;
};

struct Advice {
  int64_t sequence = 0, evaluations = 0, tool_calls = 0;  // when it was given
  AdviceGiven given;
};

// An intent without an outcome.
struct OpenTool {
  int64_t turn = 0;
  std::string call, name;
  int64_t sequence = 0;  // of tool.started: what stands behind it belongs to this call
};
struct OpenEvaluation {
  int64_t evaluation = 0;
  std::string candidate, incumbent, key;
  uint64_t seed = 0;
  int64_t sequence = 0;
  std::string result;  // artifact; empty: to be judged here
};

struct Incumbent {
  std::string candidate;
  Interval speedup;
  int64_t evaluation = 0, attempt = 0;
};

struct State {
  std::optional<RunStarted> start;
  Budget budget;
  Target target;
  int64_t events = 0;  // the last sequence applied
  int64_t last_recorded_at_us = 0;
  std::string last_hash;
  std::vector<Attempt> attempts;
  std::unordered_map<std::string, int64_t> attempt_of;  // candidate → index in attempts
  std::optional<Incumbent> incumbent;
  std::map<std::string, std::string> workspace;  // path → content hash, now
  std::vector<ToolCall> pending_calls;           // of the last turn, not yet finished
  int64_t turn_open = 0;                         // number of a turn without outcome, or 0
  std::optional<OpenTool> tool_open;
  std::optional<OpenEvaluation> evaluation_open;
  std::vector<std::string> recent_results;  // of the last turn's tools, for the agent
  bool agent_exhausted = false;
  bool paused = false;
  std::optional<AgentConfigured> agent;  // of agents with a context
  std::vector<Exchange> exchanges;
  int64_t cleared_through = 0, compacted_through = 0;  // turns
  int64_t compactions = 0;
  std::string memory, summary;  // artifacts, of the last compaction
  int64_t request_bytes = 0, request_tokens = 0;  // the last whose usage the server told
  std::string budget_spent;                       // the agent could not afford another request
  std::vector<Advice> advice;
  int64_t tool_calls_at_gain = 0, tool_calls_at_evaluation = 0;
  Spent spent;
  double active_before_s = 0;  // active seconds of processes before the current one
  int64_t resumes = 0;
  int64_t evaluations_since_gain = 0;
  double noise = 0;  // from the A/A measurement, relative
  std::vector<std::string> notes;
  std::optional<RunEnded> ending;
  int64_t unknown_events = 0;
};

// Applies one event. Pure; never fails: what makes no sense is counted in unknown_events.
void apply(State& state, const Event& envelope, const Payload& payload);

// Budget left and stop rule, as values for every view.
struct Progress {
  std::string phase;  // "starting", "running", "ended", …
  double speedup = 0, low = 0, high = 0;
  bool goal_met = false;
  double fraction_of_budget = 0;  // the largest of the limits in use
};
Progress progress_of(const State& state);

// `status --json`: run, task, state, ending, evaluations, tool_calls, turns, best, goal, budget,
// events.
Json status_json(const State& state);

// Snapshot: to open a long log without folding it all. state_from_json(to_json(s)) == s.
Json to_json(const State& state);
Result<State> state_from_json(const Json& json);

// Hash over everything that must be equal after a crash and a resume: what was proposed, judged and
// decided. Times, figures of timings, processes and dates are left out.
std::string fold_fingerprint(const State& state);

}  // namespace marathon
