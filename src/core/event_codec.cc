// JSON of each payload kind. Names and fields are for ever: add, never change or remove.
//
// One function a kind lists its fields once; writing and reading walk the same list, so no field
// can be written and not read.
#include <nlohmann/json.hpp>
#include <type_traits>

#include "base/json.h"
#include "core/event.h"

namespace marathon {

namespace {

class Writer {
 public:
  explicit Writer(Json& json) : json_(json) {}
  void operator()(const char* key, const std::string& v) { json_[key] = v; }
  void operator()(const char* key, int64_t v) { json_[key] = v; }
  void operator()(const char* key, uint64_t v) { json_[key] = v; }
  void operator()(const char* key, double v) { json_[key] = v; }
  void operator()(const char* key, bool v) { json_[key] = v; }
  void operator()(const char* key, const std::map<std::string, std::string>& v) { json_[key] = v; }
  void operator()(const char* key, const Configuration& v) { json_[key] = v; }
  void operator()(const char* key, const Verdict& v) { json_[key] = to_json(v); }
  void operator()(const char* key, const Ending& v) { json_[key] = to_string(v); }
  void operator()(const char* key, const Interval& v) {
    json_[key] = {{"value", v.value}, {"low", v.low}, {"high", v.high}};
  }
  void operator()(const char* key, const Budget& v) {
    json_[key] = {{"evaluations", v.evaluations},
                  {"tool_calls", v.tool_calls},
                  {"hours", v.hours},
                  {"usd", v.usd},
                  {"tokens", v.tokens}};
  }
  void operator()(const char* key, const Prices& v) {
    json_[key] = {{"input", v.input},
                  {"cache_read", v.cache_read},
                  {"cache_write", v.cache_write},
                  {"output", v.output}};
  }
  void operator()(const char* key, const Target& v) {
    json_[key] = {{"speedup", v.speedup}, {"text", v.text}};
  }
  void operator()(const char* key, const std::vector<ToolCall>& v) {
    Json list = Json::array();
    for (const ToolCall& call : v) {
      list.push_back({{"id", call.id}, {"name", call.name}, {"arguments", call.arguments}});
    }
    json_[key] = std::move(list);
  }

 private:
  Json& json_;
};

// A field that is absent keeps its default: an older version did not write it. A field of another
// type makes the payload corrupt.
class FieldReader {
 public:
  explicit FieldReader(const Json& json) : json_(json) {}
  const std::string& problem() const { return problem_; }

  void operator()(const char* key, std::string& v) { scalar(key, v, &Json::is_string, "text"); }
  void operator()(const char* key, int64_t& v) {
    scalar(key, v, &Json::is_number_integer, "a whole number");
  }
  void operator()(const char* key, uint64_t& v) {
    scalar(key, v, &Json::is_number_integer, "a whole number");
  }
  void operator()(const char* key, bool& v) { scalar(key, v, &Json::is_boolean, "true or false"); }
  void operator()(const char* key, double& v) {
    const Json* at = find(key);
    if (!at || at->is_null()) return;  // null: not a finite number when it was written
    scalar(key, v, &Json::is_number, "a number");
  }
  void operator()(const char* key, std::map<std::string, std::string>& v) {
    each(key, [&](const std::string& name, const Json& value) {
      if (!value.is_string()) return wrong(key, "a map of texts");
      v[name] = value.get<std::string>();
    });
  }
  void operator()(const char* key, Configuration& v) {
    each(key, [&](const std::string& name, const Json& value) {
      if (!value.is_number_integer()) return wrong(key, "a map of whole numbers");
      v[name] = value.get<int64_t>();
    });
  }
  void operator()(const char* key, Verdict& v) {
    const Json* at = find(key);
    if (!at) return wrong(key, "a verdict");
    Result<Verdict> verdict = verdict_from_json(*at);
    if (!verdict) return wrong(key, "a verdict");
    v = std::move(*verdict);
  }
  void operator()(const char* key, Ending& v) {
    const Json* at = find(key);
    const std::optional<Ending> ending =
        at && at->is_string() ? ending_from(at->get<std::string>()) : std::nullopt;
    if (!ending) return wrong(key, "an ending");
    v = *ending;
  }
  void operator()(const char* key, Interval& v) {
    if (const Json* at = object(key))
      v = {json_double(*at, "value"), json_double(*at, "low"), json_double(*at, "high")};
  }
  void operator()(const char* key, Budget& v) {
    if (const Json* at = object(key)) {
      v = {json_int(*at, "evaluations"), json_int(*at, "tool_calls"), json_double(*at, "hours"),
           json_double(*at, "usd"), json_int(*at, "tokens")};
    }
  }
  void operator()(const char* key, Prices& v) {
    if (const Json* at = object(key)) {
      v = {json_double(*at, "input"), json_double(*at, "cache_read"),
           json_double(*at, "cache_write"), json_double(*at, "output")};
    }
  }
  void operator()(const char* key, Target& v) {
    if (const Json* at = object(key)) v = {json_double(*at, "speedup"), json_string(*at, "text")};
  }
  void operator()(const char* key, std::vector<ToolCall>& v) {
    const Json* at = find(key);
    if (!at) return;
    if (!at->is_array()) return wrong(key, "a list of calls");
    for (const Json& call : *at) {
      v.push_back(
          {json_string(call, "id"), json_string(call, "name"), json_string(call, "arguments")});
    }
  }

 private:
  const Json* find(const char* key) const {
    const Json::const_iterator at = json_.find(key);
    return at == json_.end() ? nullptr : &*at;
  }
  const Json* object(const char* key) {
    const Json* at = find(key);
    if (at && !at->is_object()) wrong(key, "an object");
    return at && at->is_object() ? at : nullptr;
  }
  template <class Visit>
  void each(const char* key, const Visit& visit) {
    const Json* at = object(key);
    if (!at) return;
    for (const auto& [name, value] : at->items()) visit(name, value);
  }
  template <class T>
  void scalar(const char* key, T& v, bool (Json::*is)() const noexcept, const char* what) {
    const Json* at = find(key);
    if (!at) return;
    if (!(at->*is)()) return wrong(key, what);
    v = at->get<T>();
  }
  void wrong(const char* key, const char* what) {
    if (problem_.empty()) problem_ = std::string("'") + key + "' is not " + what;
  }

  const Json& json_;
  std::string problem_;
};

void fields(auto& f,
            auto& p) requires std::is_same_v<std::remove_cvref_t<decltype(p)>, RunStarted> {
  f("run", p.run), f("task_name", p.task_name), f("task_hash", p.task_hash),
      f("task_folder", p.task_folder);
  f("agent", p.agent), f("agent_detail", p.agent_detail), f("seed", p.seed), f("budget", p.budget);
  f("target", p.target), f("marathon_version", p.marathon_version), f("host", p.host),
      f("judge", p.judge);
  f("workspace", p.workspace), f("start_candidate", p.start_candidate);
}
#define FIELDS(Kind) \
  void fields(auto& f, auto& p) requires std::is_same_v<std::remove_cvref_t<decltype(p)>, Kind>
FIELDS(RunResumed) {
  f("process", p.process), f("host", p.host), f("marathon_version", p.marathon_version),
      f("why", p.why), f("lost_events", p.lost_events);
}
FIELDS(BudgetChanged) { f("budget", p.budget), f("by", p.by); }
FIELDS(GoalChanged) { f("target", p.target), f("by", p.by); }
FIELDS(GoalPaused) { f("paused", p.paused), f("by", p.by); }
FIELDS(AgentConfigured) {
  f("api", p.api), f("base_url", p.base_url), f("model", p.model);
  f("context_window", p.context_window), f("max_output_tokens", p.max_output_tokens);
  f("prices", p.prices), f("extra", p.extra), f("prompts", p.prompts);
}
FIELDS(TurnStarted) { f("turn", p.turn); }
FIELDS(TurnFinished) {
  f("turn", p.turn), f("text", p.text), f("calls", p.calls), f("input_tokens", p.input_tokens);
  f("output_tokens", p.output_tokens), f("active_s", p.active_s), f("exhausted", p.exhausted);
  f("blocks", p.blocks), f("stop", p.stop), f("model", p.model);
  f("cache_read_tokens", p.cache_read_tokens), f("cache_write_tokens", p.cache_write_tokens);
  f("usage_known", p.usage_known), f("usd", p.usd), f("request_bytes", p.request_bytes);
  f("budget_spent", p.budget_spent);
}
FIELDS(ModelFailed) {
  f("turn", p.turn), f("fault", p.fault), f("what", p.what), f("status", p.status);
  f("input_tokens", p.input_tokens), f("output_tokens", p.output_tokens), f("usd", p.usd),
      f("active_s", p.active_s);
}
FIELDS(ModelWaited) { f("turn", p.turn), f("why", p.why), f("seconds", p.seconds); }
FIELDS(ContextCleared) { f("turn", p.turn), f("through_turn", p.through_turn); }
FIELDS(ContextCompacted) {
  f("turn", p.turn), f("through_turn", p.through_turn), f("memory", p.memory);
  f("summary", p.summary), f("why", p.why), f("tokens_before", p.tokens_before),
      f("tokens_after", p.tokens_after);
}
FIELDS(AdviceGiven) {
  f("turn", p.turn), f("kind", p.kind), f("category", p.category), f("attempt", p.attempt),
      f("text", p.text);
}
FIELDS(ToolStarted) { f("turn", p.turn), f("call", p.call), f("name", p.name); }
FIELDS(ToolFinished) {
  f("turn", p.turn), f("call", p.call), f("name", p.name), f("ok", p.ok), f("result", p.result);
  f("written", p.written), f("active_s", p.active_s);
}
FIELDS(CandidateAdded) {
  f("candidate", p.candidate), f("parent", p.parent), f("files", p.files), f("commit", p.commit);
  f("hypothesis", p.hypothesis), f("category", p.category), f("by", p.by),
      f("configuration", p.configuration);
}
FIELDS(EvaluationStarted) {
  f("evaluation", p.evaluation), f("candidate", p.candidate), f("incumbent", p.incumbent),
      f("key", p.key), f("seed", p.seed), f("result", p.result);
}
FIELDS(EvaluationStage) {
  f("evaluation", p.evaluation), f("stage", p.stage), f("text", p.text), f("seconds", p.seconds);
}
FIELDS(EvaluationFinished) {
  f("evaluation", p.evaluation), f("candidate", p.candidate), f("key", p.key),
      f("verdict", p.verdict), f("active_s", p.active_s);
}
FIELDS(EvaluationRepeated) { f("evaluation", p.evaluation), f("key", p.key), f("why", p.why); }
FIELDS(IncumbentChanged) {
  f("candidate", p.candidate), f("previous", p.previous), f("speedup", p.speedup),
      f("gain", p.gain), f("evaluation", p.evaluation);
}
FIELDS(NoiseMeasured) {
  f("ratio", p.ratio), f("noise", p.noise), f("pairs", p.pairs), f("active_s", p.active_s);
}
FIELDS(NoteAdded) { f("text", p.text), f("by", p.by); }
FIELDS(StorageWaited) { f("why", p.why), f("seconds", p.seconds); }
FIELDS(ArtifactsPruned) { f("files", p.files), f("bytes", p.bytes); }
FIELDS(RunEnded) { f("ending", p.ending), f("evidence", p.evidence), f("active_s", p.active_s); }
#undef FIELDS

// DO NOT CHANGE: these names are in logs. In the order of the variant's alternatives.
constexpr std::string_view type_names[] = {
    "run.started",        "run.resumed",      "budget.changed",      "goal.changed",
    "goal.paused",        "agent.configured", "turn.started",        "turn.finished",
    "model.failed",       "model.waited",     "context.cleared",     "context.compacted",
    "advice.given",       "tool.started",     "tool.finished",       "candidate.added",
    "evaluation.started", "evaluation.stage", "evaluation.finished", "evaluation.repeated",
    "incumbent.changed",  "noise.measured",   "note.added",          "storage.waited",
    "artifacts.pruned",   "run.ended"};
static_assert(std::variant_size_v<Payload> == std::size(type_names) + 1,
              "a name for every kind but Unknown");

template <size_t index>
Result<Payload> decode_as(const Json& json, std::string_view type) {
  std::variant_alternative_t<index, Payload> payload;
  FieldReader reader(json);
  fields(reader, payload);
  if (!reader.problem().empty())
    return fail(Fault::corrupt, std::string(type) + ": " + reader.problem());
  return Payload(std::move(payload));
}

template <size_t... index>
Result<Payload> decode_named(std::string_view type, const Json& json,
                             std::index_sequence<index...>) {
  Result<Payload> decoded = Payload(Unknown{});
  (void)((type_names[index] == type && (decoded = decode_as<index>(json, type), true)) || ...);
  return decoded;
}

bool is_known(std::string_view type) {
  for (const std::string_view name : type_names) {
    if (name == type) return true;
  }
  return false;
}

}  // namespace

std::string_view payload_type(const Payload& payload) {
  if (const Unknown* unknown = std::get_if<Unknown>(&payload)) return unknown->payload_type;
  return type_names[payload.index()];
}

std::string encode_payload(const Payload& payload) {
  if (const Unknown* unknown = std::get_if<Unknown>(&payload)) return unknown->payload;
  Json json = Json::object();
  std::visit(
      [&](const auto& p) {
        if constexpr (!std::is_same_v<std::remove_cvref_t<decltype(p)>, Unknown>) {
          Writer writer(json);
          fields(writer, p);
        }
      },
      payload);
  return dump_json(json);
}

Result<Payload> decode_payload(std::string_view type, std::string_view payload) {
  if (!is_known(type)) return Payload(Unknown{std::string(type), std::string(payload)});
  const Json json = TRY(parse_json(payload));
  if (!json.is_object())
    return fail(Fault::corrupt, std::string(type) + ": the payload is not an object");
  return decode_named(type, json, std::make_index_sequence<std::size(type_names)>());
}

}  // namespace marathon
