// The fold. One small function a kind of event; none of them can fail.
#include "core/state.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace marathon {

namespace {

constexpr size_t max_reason_bytes = 300;

std::string cut(const std::string& text) {
  if (text.size() <= max_reason_bytes) return text;
  size_t end = max_reason_bytes;
  while (end > 0 && (text[end] & 0xc0) == 0x80) --end;  // never inside a code point
  return text.substr(0, end) + "…";
}

Attempt* find_attempt(State& state, const std::string& candidate) {
  const auto found = state.attempt_of.find(candidate);
  return found == state.attempt_of.end() ? nullptr
                                         : &state.attempts[static_cast<size_t>(found->second)];
}

void update_workspace(State& state, const std::map<std::string, std::string>& written) {
  for (const auto& [path, hash] : written) {
    if (hash.empty()) {
      state.workspace.erase(path);
    } else {
      state.workspace[path] = hash;
    }
  }
}

void set_active(State& state, double process_active_s) {
  state.spent.active_s = std::max(state.spent.active_s, state.active_before_s + process_active_s);
}

void on(State& state, const Event&, const RunStarted& p) {
  if (state.start) {
    ++state.unknown_events;
    return;
  }
  state.start = p;
  state.budget = p.budget;
  state.target = p.target;
  state.workspace = p.workspace;
}

// A request whose answer was lost with its process: it was sent, perhaps, and will be charged.
void charge_lost_request(State& state) {
  if (state.turn_open == 0 || !state.agent || state.agent->api.empty()) return;
  const AgentConfigured& agent = *state.agent;
  ++state.spent.failed_requests;
  state.spent.input_tokens += state.request_tokens;
  state.spent.output_tokens += agent.max_output_tokens;
  state.spent.usd += 1e-6 * (static_cast<double>(state.request_tokens) * agent.prices.input +
                             static_cast<double>(agent.max_output_tokens) * agent.prices.output);
}

void on(State& state, const Event&, const RunResumed&) {
  charge_lost_request(state);
  ++state.resumes;
  state.active_before_s = state.spent.active_s;
}

void on(State& state, const Event&, const BudgetChanged& p) {
  state.budget = p.budget;
  state.budget_spent.clear();
}
void on(State& state, const Event&, const GoalChanged& p) { state.target = p.target; }

void on(State& state, const Event&, const GoalPaused& p) { state.paused = p.paused; }
void on(State& state, const Event&, const AgentConfigured& p) { state.agent = p; }

void on(State& state, const Event&, const TurnStarted& p) { state.turn_open = p.turn; }

void on(State& state, const Event&, const TurnFinished& p) {
  if (state.turn_open != p.turn) {
    ++state.unknown_events;
    return;
  }
  state.turn_open = 0;
  state.pending_calls = p.calls;
  state.recent_results.clear();
  state.agent_exhausted = p.exhausted;
  state.budget_spent = p.budget_spent;
  ++state.spent.turns;
  state.spent.input_tokens += p.input_tokens;
  state.spent.output_tokens += p.output_tokens;
  state.spent.cache_read_tokens += p.cache_read_tokens;
  state.spent.cache_write_tokens += p.cache_write_tokens;
  state.spent.usd += p.usd;
  set_active(state, p.active_s);
  if (!state.agent) return;
  const int64_t tokens = p.input_tokens + p.cache_read_tokens + p.cache_write_tokens;
  if (p.usage_known && p.request_bytes > 0 && tokens > 0) {
    state.request_bytes = p.request_bytes;
    state.request_tokens = tokens;
  } else if (p.request_bytes > 0) {
    ++state.spent.estimated_requests;
  }
  state.exchanges.push_back({p.turn, p.text, p.blocks, p.calls, {}});
}

void on(State& state, const Event&, const ModelFailed& p) {
  ++state.spent.failed_requests;
  state.spent.input_tokens += p.input_tokens;
  state.spent.output_tokens += p.output_tokens;
  state.spent.usd += p.usd;
  set_active(state, p.active_s);
}

void on(State& state, const Event&, const ModelWaited& p) { state.spent.waited_s += p.seconds; }

void on(State& state, const Event&, const ContextCleared& p) {
  state.cleared_through = std::max(state.cleared_through, p.through_turn);
}

void on(State& state, const Event&, const ContextCompacted& p) {
  ++state.compactions;
  state.compacted_through = p.through_turn;
  state.memory = p.memory;
  state.summary = p.summary;
  std::erase_if(state.exchanges,
                [&](const Exchange& exchange) { return exchange.turn <= p.through_turn; });
}

void on(State& state, const Event& envelope, const AdviceGiven& p) {
  state.advice.push_back({envelope.sequence, state.spent.evaluations, state.spent.tool_calls, p});
}

void on(State& state, const Event& envelope, const ToolStarted& p) {
  state.tool_open = OpenTool{p.turn, p.call, p.name, envelope.sequence};
}

void on(State& state, const Event&, const ToolFinished& p) {
  const auto done = std::find_if(state.pending_calls.begin(), state.pending_calls.end(),
                                 [&](const ToolCall& call) { return call.id == p.call; });
  if (done == state.pending_calls.end()) {
    ++state.unknown_events;
    return;
  }
  state.pending_calls.erase(done);
  state.tool_open.reset();
  // A claim that the evidence bore out; a refused one is not ok.
  if (p.name == "finish" && p.ok) state.agent_exhausted = true;
  state.recent_results.push_back(p.result);
  if (!state.exchanges.empty() && state.exchanges.back().turn == p.turn)
    state.exchanges.back().answers.push_back({p.call, p.result, p.ok});
  ++state.spent.tool_calls;
  update_workspace(state, p.written);
  set_active(state, p.active_s);
}

void on(State& state, const Event& envelope, const CandidateAdded& p) {
  if (state.attempt_of.contains(p.candidate)) {
    ++state.unknown_events;
    return;
  }
  Attempt attempt;
  attempt.number = static_cast<int64_t>(state.attempts.size()) + 1;
  attempt.candidate = p.candidate;
  attempt.parent = p.parent;
  attempt.hypothesis = p.hypothesis;
  attempt.category = p.category;
  attempt.by = p.by;
  attempt.commit = p.commit;
  attempt.configuration = p.configuration;
  attempt.added_sequence = envelope.sequence;
  attempt.recorded_at_us = envelope.recorded_at_us;
  state.attempt_of[p.candidate] = static_cast<int64_t>(state.attempts.size());
  state.attempts.push_back(std::move(attempt));
}

void on(State& state, const Event& envelope, const EvaluationStarted& p) {
  state.evaluation_open = OpenEvaluation{p.evaluation, p.candidate,       p.incumbent, p.key,
                                         p.seed,       envelope.sequence, p.result};
  if (Attempt* attempt = find_attempt(state, p.candidate)) attempt->evaluation = p.evaluation;
}

void on(State&, const Event&, const EvaluationStage&) {}
void on(State&, const Event&, const EvaluationRepeated&) {}

void on(State& state, const Event& envelope, const EvaluationFinished& p) {
  // One outcome for a key, for ever: a second one would be an evaluation done twice.
  if (!state.evaluation_open || state.evaluation_open->key != p.key) {
    ++state.unknown_events;
    return;
  }
  const bool elsewhere = !state.evaluation_open->result.empty();
  state.evaluation_open.reset();
  ++state.spent.evaluations;
  ++state.evaluations_since_gain;
  set_active(state, p.active_s);
  Attempt* attempt = find_attempt(state, p.candidate);
  if (!attempt) return;
  attempt->finished_sequence = envelope.sequence;
  ++attempt->evaluations;
  attempt->active_s = state.spent.active_s;
  attempt->tool_calls = state.tool_calls_at_evaluation = state.spent.tool_calls;
  attempt->verdict = p.verdict.kind;
  attempt->speedup = p.verdict.speedup;
  attempt->gain = p.verdict.gain;
  attempt->elsewhere = elsewhere;
  if (!p.verdict.reasons.empty()) attempt->reason = cut(p.verdict.reasons.front());
  if (p.verdict.profile && !p.verdict.profile->sentences.empty()) {
    attempt->profile_sentence = cut(p.verdict.profile->sentences.front());
  }
}

void on(State& state, const Event&, const IncumbentChanged& p) {
  Attempt* attempt = find_attempt(state, p.candidate);
  if (!attempt) {
    ++state.unknown_events;
    return;
  }
  attempt->became_incumbent = true;
  state.incumbent = Incumbent{p.candidate, p.speedup, p.evaluation, attempt->number};
  state.evaluations_since_gain = 0;
  state.tool_calls_at_gain = state.spent.tool_calls;
}

void on(State& state, const Event&, const NoiseMeasured& p) {
  state.noise = p.noise;
  set_active(state, p.active_s);
}

void on(State& state, const Event&, const NoteAdded& p) { state.notes.push_back(p.text); }
void on(State&, const Event&, const StorageWaited&) {}
void on(State&, const Event&, const ArtifactsPruned&) {}

void on(State& state, const Event&, const RunEnded& p) {
  if (state.ending) {
    ++state.unknown_events;
    return;
  }
  state.ending = p;
  set_active(state, p.active_s);
}

void on(State& state, const Event&, const Unknown&) { ++state.unknown_events; }

double fraction(double spent, double limit) { return limit > 0 ? spent / limit : 0; }

}  // namespace

void apply(State& state, const Event& envelope, const Payload& payload) {
  state.events = envelope.sequence;
  state.last_recorded_at_us = envelope.recorded_at_us;
  state.last_hash = envelope.hash;
  std::visit([&](const auto& p) { on(state, envelope, p); }, payload);
}

Progress progress_of(const State& state) {
  Progress progress;
  progress.phase = !state.start ? "starting" : state.ending ? "ended" : "running";
  if (state.incumbent) {
    progress.speedup = state.incumbent->speedup.value;
    progress.low = state.incumbent->speedup.low;
    progress.high = state.incumbent->speedup.high;
  }
  progress.goal_met =
      state.incumbent && state.target.speedup > 0 && progress.low >= state.target.speedup;
  progress.fraction_of_budget = std::max({fraction(static_cast<double>(state.spent.evaluations),
                                                   static_cast<double>(state.budget.evaluations)),
                                          fraction(static_cast<double>(state.spent.tool_calls),
                                                   static_cast<double>(state.budget.tool_calls)),
                                          fraction(state.spent.active_s, state.budget.hours * 3600),
                                          fraction(state.spent.usd, state.budget.usd),
                                          fraction(static_cast<double>(state.spent.tokens()),
                                                   static_cast<double>(state.budget.tokens))});
  return progress;
}

Json status_json(const State& state) {
  const Progress progress = progress_of(state);
  Json json = {
      {"run", state.start ? state.start->run : ""},
      {"task", state.start ? state.start->task_name : ""},
      {"agent", state.start ? state.start->agent : ""},
      {"state", progress.phase},
      {"ending", nullptr},
      {"evaluations", state.spent.evaluations},
      {"tool_calls", state.spent.tool_calls},
      {"turns", state.spent.turns},
      {"attempts", state.attempts.size()},
      {"resumes", state.resumes},
      {"noise", state.noise},
      {"best", nullptr},
      {"goal",
       {{"text", state.target.text}, {"target", state.target.speedup}, {"met", progress.goal_met}}},
      {"budget",
       {{"evaluations", state.budget.evaluations},
        {"tool_calls", state.budget.tool_calls},
        {"hours", state.budget.hours},
        {"usd", state.budget.usd},
        {"tokens", state.budget.tokens},
        {"active_s", state.spent.active_s},
        {"fraction_spent", progress.fraction_of_budget}}},
      {"events", state.events},
      {"last_recorded_at", state.last_recorded_at_us}};
  if (state.agent) {
    json["model"] = {
        {"name", state.agent->model},       {"tokens", state.spent.tokens()},
        {"usd", state.spent.usd},           {"failed_requests", state.spent.failed_requests},
        {"waited_s", state.spent.waited_s}, {"compactions", state.compactions}};
  }
  if (state.ending) {
    json["ending"] = to_string(state.ending->ending);
    json["evidence"] = state.ending->evidence;
  }
  if (state.incumbent) {
    json["best"] = {{"candidate", state.incumbent->candidate},
                    {"attempt", state.incumbent->attempt},
                    {"speedup", progress.speedup},
                    {"low", progress.low},
                    {"high", progress.high},
                    {"evaluation", state.incumbent->evaluation}};
  }
  return json;
}

}  // namespace marathon
