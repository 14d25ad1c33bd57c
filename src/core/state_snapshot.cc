// A State as JSON and back, so that a long log opens without being folded from its start, and the
// fingerprint by which two folds are compared.
#include <nlohmann/json.hpp>

#include "base/hash.h"
#include "base/json.h"
#include "core/state.h"

namespace marathon {

namespace {

constexpr int64_t snapshot_version = 5;  // another version: the snapshot is ignored and made anew

Json interval_json(const Interval& v) { return Json::array({v.value, v.low, v.high}); }

Interval interval_from(const Json& json) {
  const auto at = [&](size_t i) { return json.at(i).is_number() ? json.at(i).get<double>() : 0; };
  return {at(0), at(1), at(2)};
}

Json attempt_json(const Attempt& v) {
  Json json = {{"number", v.number},
               {"candidate", v.candidate},
               {"parent", v.parent},
               {"hypothesis", v.hypothesis},
               {"category", v.category},
               {"by", v.by},
               {"commit", v.commit},
               {"configuration", v.configuration},
               {"evaluation", v.evaluation},
               {"evaluations", v.evaluations},
               {"added_sequence", v.added_sequence},
               {"finished_sequence", v.finished_sequence},
               {"recorded_at_us", v.recorded_at_us},
               {"active_s", v.active_s},
               {"tool_calls", v.tool_calls},
               {"speedup", interval_json(v.speedup)},
               {"gain", interval_json(v.gain)},
               {"reason", v.reason},
               {"profile_sentence", v.profile_sentence},
               {"became_incumbent", v.became_incumbent},
               {"elsewhere", v.elsewhere}};
  if (v.verdict) json["verdict"] = to_string(*v.verdict);
  return json;
}

Attempt attempt_from(const Json& json) {
  Attempt v;
  v.number = json.at("number").get<int64_t>();
  v.candidate = json.at("candidate").get<std::string>();
  v.parent = json.at("parent").get<std::string>();
  v.hypothesis = json.at("hypothesis").get<std::string>();
  v.category = json.at("category").get<std::string>();
  v.by = json.at("by").get<std::string>();
  v.commit = json.at("commit").get<std::string>();
  v.configuration = json.at("configuration").get<Configuration>();
  v.evaluation = json.at("evaluation").get<int64_t>();
  v.evaluations = json.at("evaluations").get<int64_t>();
  v.added_sequence = json.at("added_sequence").get<int64_t>();
  v.finished_sequence = json.at("finished_sequence").get<int64_t>();
  v.recorded_at_us = json.at("recorded_at_us").get<int64_t>();
  v.active_s = json.at("active_s").get<double>();
  v.tool_calls = json.at("tool_calls").get<int64_t>();
  if (json.contains("verdict"))
    v.verdict = verdict_kind_from(json.at("verdict").get<std::string>());
  v.speedup = interval_from(json.at("speedup"));
  v.gain = interval_from(json.at("gain"));
  v.reason = json.at("reason").get<std::string>();
  v.profile_sentence = json.at("profile_sentence").get<std::string>();
  v.became_incumbent = json.at("became_incumbent").get<bool>();
  v.elsewhere = json.at("elsewhere").get<bool>();
  return v;
}

// Start and ending are stored as the payloads that they came from.
Json payload_json(const Payload& payload) { return *parse_json(encode_payload(payload)); }

template <class T>
T payload_from(const Json& json, std::string_view type) {
  return std::get<T>(*decode_payload(type, dump_json(json)));
}

Json calls_json(const std::vector<ToolCall>& calls) {
  Json list = Json::array();
  for (const ToolCall& call : calls)
    list.push_back(Json::array({call.id, call.name, call.arguments}));
  return list;
}

std::vector<ToolCall> calls_from(const Json& list) {
  std::vector<ToolCall> calls;
  for (const Json& call : list)
    calls.push_back({call.at(0).get<std::string>(), call.at(1).get<std::string>(),
                     call.at(2).get<std::string>()});
  return calls;
}

Json open_json(const State& state) {
  Json json = {{"turn", state.turn_open}, {"calls", calls_json(state.pending_calls)}};
  if (state.tool_open) {
    json["tool"] = Json::array({state.tool_open->turn, state.tool_open->call, state.tool_open->name,
                                state.tool_open->sequence});
  }
  if (state.evaluation_open) {
    const OpenEvaluation& v = *state.evaluation_open;
    json["evaluation"] =
        Json::array({v.evaluation, v.candidate, v.incumbent, v.key, v.seed, v.sequence, v.result});
  }
  return json;
}

void read_open(const Json& json, State& state) {
  state.turn_open = json.at("turn").get<int64_t>();
  state.pending_calls = calls_from(json.at("calls"));
  if (json.contains("tool")) {
    const Json& v = json.at("tool");
    state.tool_open = OpenTool{v.at(0).get<int64_t>(), v.at(1).get<std::string>(),
                               v.at(2).get<std::string>(), v.at(3).get<int64_t>()};
  }
  if (json.contains("evaluation")) {
    const Json& v = json.at("evaluation");
    state.evaluation_open = OpenEvaluation{v.at(0).get<int64_t>(),     v.at(1).get<std::string>(),
                                           v.at(2).get<std::string>(), v.at(3).get<std::string>(),
                                           v.at(4).get<uint64_t>(),    v.at(5).get<int64_t>(),
                                           v.at(6).get<std::string>()};
  }
}

Json agent_json(const State& state) {
  Json json = {{"exchanges", Json::array()},
               {"cleared_through", state.cleared_through},
               {"compacted_through", state.compacted_through},
               {"compactions", state.compactions},
               {"memory", state.memory},
               {"summary", state.summary},
               {"request_bytes", state.request_bytes},
               {"request_tokens", state.request_tokens},
               {"budget_spent", state.budget_spent},
               {"advice", Json::array()},
               {"spent", Json::array({state.spent.cache_read_tokens, state.spent.cache_write_tokens,
                                      state.spent.usd, state.spent.failed_requests,
                                      state.spent.estimated_requests, state.spent.waited_s})}};
  if (state.agent) json["configured"] = payload_json(*state.agent);
  for (const Exchange& exchange : state.exchanges) {
    Json answers = Json::array();
    for (const Exchange::Answer& answer : exchange.answers)
      answers.push_back(Json::array({answer.call, answer.result, answer.ok}));
    json["exchanges"].push_back(Json::array({exchange.turn, exchange.text, exchange.blocks,
                                             calls_json(exchange.calls), std::move(answers)}));
  }
  for (const Advice& advice : state.advice) {
    json["advice"].push_back(Json::array(
        {advice.sequence, advice.evaluations, advice.tool_calls, payload_json(advice.given)}));
  }
  return json;
}

void read_agent(const Json& json, State& state) {
  if (json.contains("configured"))
    state.agent = payload_from<AgentConfigured>(json.at("configured"), "agent.configured");
  for (const Json& v : json.at("exchanges")) {
    Exchange exchange{v.at(0).get<int64_t>(),
                      v.at(1).get<std::string>(),
                      v.at(2).get<std::string>(),
                      calls_from(v.at(3)),
                      {}};
    for (const Json& answer : v.at(4))
      exchange.answers.push_back({answer.at(0).get<std::string>(), answer.at(1).get<std::string>(),
                                  answer.at(2).get<bool>()});
    state.exchanges.push_back(std::move(exchange));
  }
  state.cleared_through = json.at("cleared_through").get<int64_t>();
  state.compacted_through = json.at("compacted_through").get<int64_t>();
  state.compactions = json.at("compactions").get<int64_t>();
  state.memory = json.at("memory").get<std::string>();
  state.summary = json.at("summary").get<std::string>();
  state.request_bytes = json.at("request_bytes").get<int64_t>();
  state.request_tokens = json.at("request_tokens").get<int64_t>();
  state.budget_spent = json.at("budget_spent").get<std::string>();
  for (const Json& v : json.at("advice")) {
    state.advice.push_back({v.at(0).get<int64_t>(), v.at(1).get<int64_t>(), v.at(2).get<int64_t>(),
                            payload_from<AdviceGiven>(v.at(3), "advice.given")});
  }
  const Json& spent = json.at("spent");
  state.spent.cache_read_tokens = spent.at(0).get<int64_t>();
  state.spent.cache_write_tokens = spent.at(1).get<int64_t>();
  state.spent.usd = spent.at(2).get<double>();
  state.spent.failed_requests = spent.at(3).get<int64_t>();
  state.spent.estimated_requests = spent.at(4).get<int64_t>();
  state.spent.waited_s = spent.at(5).get<double>();
}

State read_state(const Json& json) {
  State state;
  if (json.contains("start"))
    state.start = payload_from<RunStarted>(json.at("start"), "run.started");
  if (json.contains("ending"))
    state.ending = payload_from<RunEnded>(json.at("ending"), "run.ended");
  state.budget = payload_from<BudgetChanged>(json.at("budget"), "budget.changed").budget;
  state.target = payload_from<GoalChanged>(json.at("goal"), "goal.changed").target;
  state.events = json.at("events").get<int64_t>();
  state.last_recorded_at_us = json.at("last_recorded_at_us").get<int64_t>();
  state.last_hash = json.at("last_hash").get<std::string>();
  for (const Json& attempt : json.at("attempts")) {
    state.attempts.push_back(attempt_from(attempt));
    state.attempt_of[state.attempts.back().candidate] =
        static_cast<int64_t>(state.attempts.size()) - 1;
  }
  if (json.contains("incumbent")) {
    const Json& v = json.at("incumbent");
    state.incumbent =
        Incumbent{v.at("candidate").get<std::string>(), interval_from(v.at("speedup")),
                  v.at("evaluation").get<int64_t>(), v.at("attempt").get<int64_t>()};
  }
  state.workspace = json.at("workspace").get<std::map<std::string, std::string>>();
  read_open(json.at("open"), state);
  state.recent_results = json.at("recent_results").get<std::vector<std::string>>();
  state.agent_exhausted = json.at("agent_exhausted").get<bool>();
  const Json& spent = json.at("spent");
  state.spent.evaluations = spent.at(0).get<int64_t>();
  state.spent.tool_calls = spent.at(1).get<int64_t>();
  state.spent.turns = spent.at(2).get<int64_t>();
  state.spent.input_tokens = spent.at(3).get<int64_t>();
  state.spent.output_tokens = spent.at(4).get<int64_t>();
  state.spent.active_s = spent.at(5).get<double>();
  state.paused = json.at("paused").get<bool>();
  state.tool_calls_at_gain = json.at("tool_calls_at_gain").get<int64_t>();
  state.tool_calls_at_evaluation = json.at("tool_calls_at_evaluation").get<int64_t>();
  read_agent(json.at("agent"), state);
  state.active_before_s = json.at("active_before_s").get<double>();
  state.resumes = json.at("resumes").get<int64_t>();
  state.evaluations_since_gain = json.at("evaluations_since_gain").get<int64_t>();
  state.noise = json.at("noise").get<double>();
  state.notes = json.at("notes").get<std::vector<std::string>>();
  state.unknown_events = json.at("unknown_events").get<int64_t>();
  return state;
}

}  // namespace

Json to_json(const State& state) {
  Json json = {{"snapshot_version", snapshot_version},
               {"budget", payload_json(BudgetChanged{state.budget, ""})},
               {"goal", payload_json(GoalChanged{state.target, ""})},
               {"events", state.events},
               {"last_recorded_at_us", state.last_recorded_at_us},
               {"last_hash", state.last_hash},
               {"attempts", Json::array()},
               {"workspace", state.workspace},
               {"open", open_json(state)},
               {"recent_results", state.recent_results},
               {"agent_exhausted", state.agent_exhausted},
               {"spent", Json::array({state.spent.evaluations, state.spent.tool_calls,
                                      state.spent.turns, state.spent.input_tokens,
                                      state.spent.output_tokens, state.spent.active_s})},
               {"agent", agent_json(state)},
               {"paused", state.paused},
               {"tool_calls_at_gain", state.tool_calls_at_gain},
               {"tool_calls_at_evaluation", state.tool_calls_at_evaluation},
               {"active_before_s", state.active_before_s},
               {"resumes", state.resumes},
               {"evaluations_since_gain", state.evaluations_since_gain},
               {"noise", state.noise},
               {"notes", state.notes},
               {"unknown_events", state.unknown_events}};
  if (state.start) json["start"] = payload_json(*state.start);
  if (state.ending) json["ending"] = payload_json(*state.ending);
  for (const Attempt& attempt : state.attempts) json["attempts"].push_back(attempt_json(attempt));
  if (state.incumbent) {
    json["incumbent"] = {{"candidate", state.incumbent->candidate},
                         {"speedup", interval_json(state.incumbent->speedup)},
                         {"evaluation", state.incumbent->evaluation},
                         {"attempt", state.incumbent->attempt}};
  }
  return json;
}

Result<State> state_from_json(const Json& json) {
  if (json_int(json, "snapshot_version") != snapshot_version) {
    return fail(Fault::invalid, "the snapshot is of another version; it is made anew from the log");
  }
  try {
    return read_state(json);
  } catch (const std::exception& error) {
    return fail(Fault::corrupt, std::string("the snapshot is damaged: ") + error.what());
  }
}

std::string fold_fingerprint(const State& state) {
  Json json = {{"agent_exhausted", state.agent_exhausted},
               {"notes", state.notes},
               {"workspace", state.workspace},
               {"evaluations", state.spent.evaluations},
               {"tool_calls", state.spent.tool_calls},
               {"turns", state.spent.turns},
               {"attempts", Json::array()}};
  if (state.start) {
    json["start"] = Json::array({state.start->task_hash, state.start->agent, state.start->seed,
                                 state.start->start_candidate, state.start->workspace});
  }
  for (const Attempt& attempt : state.attempts) {
    json["attempts"].push_back(Json::array(
        {attempt.candidate, attempt.parent, attempt.hypothesis, attempt.category, attempt.by,
         attempt.configuration, attempt.evaluation,
         attempt.verdict ? to_string(*attempt.verdict) : "", attempt.became_incumbent}));
  }
  if (state.incumbent) json["incumbent"] = state.incumbent->candidate;
  // Where it compacted depends on how long the answers were, and those hold timings.
  if (state.agent) json["agent"] = Json::array({state.agent->model, state.agent->prompts});
  if (state.ending) json["ending"] = to_string(state.ending->ending);
  return sha256_hex(dump_json(json));
}

}  // namespace marathon
