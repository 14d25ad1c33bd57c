// Events: everything that ever happened in a run, and nothing else is truth.
//
// The envelope is the one that the store writes (docs/event-log.md). A payload kind and its fields
// are for ever: add fields, never change or remove one. Kinds and fields that this version does not
// know are kept and passed through. tests/golden/events/ holds one JSON of every kind ever written.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "core/task.h"
#include "core/verdict.h"

namespace marathon {

enum class RecordType {
  event,           // a fact
  status,          // progress for people; the fold may ignore it
  reconciliation,  // written after a crash: what was done about an intent without an outcome
};
std::string_view to_string(RecordType type);

// One record as it stands in the log.
struct Event {
  int64_t schema_version = 1;
  std::string id;                     // "<run>/<sequence>"
  std::string stream_kind = "run", stream_id;
  int64_t sequence = 0;               // 1, 2, 3 … without gaps, never used twice
  int64_t recorded_at_us = 0;         // wall clock, for people only
  RecordType record_type = RecordType::event;
  std::string durability = "durable";
  std::string causation_id;           // id of the event that made this happen, or empty
  std::string payload_type;
  int64_t payload_schema_version = 1;
  std::string payload;                // JSON text, byte for byte as it was written
  std::string previous_hash, hash;    // SHA-256 chain
};

struct RunStarted {
  std::string run, task_name, task_hash, task_folder;
  std::string agent;                  // "search", "scripted"
  std::string agent_detail;           // hash of the script, version of the search
  uint64_t seed = 0;
  Budget budget;
  Target target;
  std::string marathon_version, host, judge;      // judge: sandbox level, core, compiler in words
  std::map<std::string, std::string> workspace;   // path → content hash of the starting solution
  std::string start_candidate;                    // hash
};

// A new process took over. Everything before it that has no outcome is settled right after it.
struct RunResumed {
  int64_t process = 0;
  std::string host, marathon_version, why;
  int64_t lost_events = 0;  // its snapshot knew them and the log did not: the tail was cut off
};

// Budgets and goal can be changed by a person; the newest value counts.
struct BudgetChanged { Budget budget; std::string by; };
struct GoalChanged { Target target; std::string by; };

// A person stopped or released the run; a paused one stands still and is no failure.
struct GoalPaused { bool paused = false; std::string by; };

struct Prices { double input = 0, cache_read = 0, cache_write = 0, output = 0; };  // USD a million tokens

// How a model is asked from here on. At the start of a run, and when a person changed it. Holds no
// key. Together with the log it gives every request byte for byte (agent/request.cc).
struct AgentConfigured {
  std::string api;                  // "openai", "anthropic"; "" of a scripted agent
  std::string base_url, model;
  int64_t context_window = 0, max_output_tokens = 0;
  Prices prices;
  std::string extra;                // JSON object of further fields of each request, or ""
  std::map<std::string, std::string> prompts;   // "system.md", "tools.json" … → content hash
};

struct TurnStarted { int64_t turn = 0; };                                    // intent
struct ToolCall { std::string id, name, arguments; };                        // arguments: JSON text
struct TurnFinished {                                                        // outcome
  int64_t turn = 0;
  std::string text;
  std::vector<ToolCall> calls;
  int64_t input_tokens = 0, output_tokens = 0;
  double active_s = 0;               // this process's active seconds so far
  bool exhausted = false;            // the agent has nothing more to propose
  // Of a model only. input_tokens are those that came from no cache and went into none.
  std::string blocks = {};           // JSON list: the answer in its order, reasoning too; or "artifact:" and a hash
  std::string stop = {}, model = {}; // why it ended; which model the server says it was
  int64_t cache_read_tokens = 0, cache_write_tokens = 0;
  bool usage_known = false;          // false: the figures are estimates, high
  double usd = 0;
  int64_t request_bytes = 0;
  std::string budget_spent = {};     // no request could be made any more, and why
};
// A request that brought no answer. What it cost is counted here; the turn stays open.
struct ModelFailed {
  int64_t turn = 0;
  std::string fault, what;
  int64_t status = 0;                // HTTP; 0: none
  int64_t input_tokens = 0, output_tokens = 0;
  double usd = 0, active_s = 0;
};
struct ModelWaited { int64_t turn = 0; std::string why; double seconds = 0; };   // after it went on
// Results of tools in turns up to this one are left out of requests from here on.
struct ContextCleared { int64_t turn = 0, through_turn = 0; };
// Turns up to `through_turn` are replaced by the memory, an artifact that was made from the fold alone.
struct ContextCompacted {
  int64_t turn = 0, through_turn = 0;
  std::string memory, summary;       // artifacts; summary: a model's own words, or ""
  std::string why;
  int64_t tokens_before = 0, tokens_after = 0;   // of the next request, estimated
};
// The run told the agent to do something else.
struct AdviceGiven {
  int64_t turn = 0;
  std::string kind;                  // "change_category", "restart", "probe"
  std::string category;              // the one to leave, or to go to; may be empty
  int64_t attempt = 0;               // the one to restart from; 0: none
  std::string text;
};
struct ToolStarted { int64_t turn = 0; std::string call, name; };            // intent
struct ToolFinished {                                                        // outcome
  int64_t turn = 0;
  std::string call, name;
  bool ok = true;
  std::string result;                                  // what the agent was told; bounded
  std::map<std::string, std::string> written;          // path → content hash; "" removed
  double active_s = 0;
};

struct CandidateAdded {
  std::string candidate, parent;                       // hashes; parent may be empty
  std::map<std::string, std::string> files;            // editable path → content hash
  std::string commit;                                  // in the run's git workspace
  std::string hypothesis, category, by;                // by: "search", "scripted", "person"
  Configuration configuration;                         // empty when the task has no parameters
};

struct EvaluationStarted {                             // intent
  int64_t evaluation = 0;                              // 1, 2, 3 …
  std::string candidate, incumbent, key;               // key: idempotency, one outcome for ever
  uint64_t seed = 0;
  std::string result = {};                             // artifact: judged elsewhere, this came back
};
struct EvaluationStage {                               // status
  int64_t evaluation = 0;
  std::string stage, text;                             // build, rules, check, measure, profile
  double seconds = 0;
};
struct EvaluationFinished {                            // outcome
  int64_t evaluation = 0;
  std::string candidate, key;
  Verdict verdict;
  double active_s = 0;
};
struct EvaluationRepeated { int64_t evaluation = 0; std::string key, why; };  // reconciliation

struct IncumbentChanged { std::string candidate, previous; Interval speedup, gain; int64_t evaluation = 0; };
struct NoiseMeasured { Interval ratio; double noise = 0; int64_t pairs = 0; double active_s = 0; };
struct NoteAdded { std::string text, by; };
struct StorageWaited { std::string why; double seconds = 0; };               // after it went on
struct ArtifactsPruned { int64_t files = 0, bytes = 0; };

// DO NOT CHANGE the names: they are in logs.
enum class Ending {
  goal_met, improved, plateau, budget_exhausted, limit_reached, blocked, interrupted, failed,
};
std::string_view to_string(Ending ending);
std::optional<Ending> ending_from(std::string_view name);

struct RunEnded { Ending ending = Ending::failed; std::string evidence; double active_s = 0; };

struct Unknown { std::string payload_type, payload; };  // written by a newer version

using Payload = std::variant<RunStarted, RunResumed, BudgetChanged, GoalChanged, GoalPaused,
                             AgentConfigured, TurnStarted, TurnFinished, ModelFailed, ModelWaited,
                             ContextCleared, ContextCompacted, AdviceGiven, ToolStarted, ToolFinished, CandidateAdded,
                             EvaluationStarted, EvaluationStage, EvaluationFinished,
                             EvaluationRepeated, IncumbentChanged, NoiseMeasured, NoteAdded,
                             StorageWaited, ArtifactsPruned, RunEnded, Unknown>;

std::string_view payload_type(const Payload& payload);   // "run.started", "turn.finished" …
RecordType record_type(const Payload& payload);
std::string encode_payload(const Payload& payload);      // one line of JSON
// Unknown types give Unknown. Error corrupt when a known type is not an object or lacks what the
// fold cannot do without.
Result<Payload> decode_payload(std::string_view type, std::string_view payload);

// The envelope as one JSON object on one line: `marathon log --json` and `marathon export`.
std::string to_json_line(const Event& event);
Result<Event> event_from_json_line(std::string_view line);

// hash = SHA-256 over every field of the envelope but itself, length-prefixed, in a fixed order.
std::string chain_hash(const Event& event);

// Where a fact goes. `run` gives it to judge and agent; it appends, then applies.
using Emit = std::function<Status(const Payload&)>;

}  // namespace marathon
