// Agents: who proposes. The one door.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "core/state.h"
#include "core/task.h"

namespace marathon {

// What the run lends an agent that holds a conversation: it returns facts and stores none itself.
struct Desk {
  Emit record;  // durable when it returns, and Context::state has it
  std::function<Result<std::string>(std::string_view bytes)> keep;             // gives the hash
  std::function<Result<std::string>(const std::string& hash)> artifact;
  // Sleeps; not counted as active time. Error cancelled on a stop.
  std::function<Status(double seconds, const std::string& why)> wait;
  // What a model writes, as it comes in: "text", "reasoning" or "call". Must not block.
  std::function<void(std::string_view kind, std::string_view text)> live;
};

// What an agent is asked with. Everything it may know, and nothing else.
struct Context {
  const Task& task;
  const State& state;
  const Desk* desk = nullptr;  // null: none of the agents that need it
};

struct Turn {
  std::string text;
  std::vector<ToolCall> calls;
  int64_t input_tokens = 0, output_tokens = 0;
  bool exhausted = false;             // nothing more to propose
  // Of a model: see TurnFinished.
  std::string blocks = {}, stop = {}, model = {};
  int64_t cache_read_tokens = 0, cache_write_tokens = 0;
  bool usage_known = false;
  double usd = 0;
  int64_t request_bytes = 0;
  std::string budget_spent = {};
};

// Seam: who answers a turn. Implementations keep no state between two calls that cannot be derived
// from the context: after a crash another process asks for the same turn and must get the same answer
// where the source is deterministic.
class Provider {
 public:
  virtual ~Provider() = default;
  virtual Result<Turn> next(const Context& context, std::stop_token stop) = 0;
  virtual std::string name() const = 0;     // "search", "scripted"
  virtual std::string detail() const = 0;   // version or hash, recorded in run.started
};

// The embedded search: proposes `evaluate` calls with a configuration (search.cc, the algorithm's page).
std::unique_ptr<Provider> make_search_provider();

// Replays a JSON-lines file: line n answers turn n: {"text": "...", "calls": [{"name", "arguments"}]}.
Result<std::unique_ptr<Provider>> make_scripted_provider(const std::filesystem::path& file);

// How a model is reached. What of it shapes a request goes into the log, the key never does.
struct ModelSettings {
  AgentConfigured configured;  // prompts: filled in by the run at its start
  std::string key, ca_file;
  double connect_timeout_s = 20, idle_timeout_s = 180, total_timeout_s = 3600;
  double first_wait_s = 2, longest_wait_s = 300;  // between two tries; a server's own wish may be longer
};
std::unique_ptr<Provider> make_model_provider(ModelSettings settings);

struct ToolSchema {
  std::string name, description, parameters;  // JSON schema, an object
};

// The texts that a request is made of, by name ("system.md", "tools.json"): the run keeps them as
// artifacts at its start and names them in agent.configured. From prompts/, built in.
std::map<std::string, std::string> prompt_texts(const Task& task,
                                                const std::vector<ToolSchema>& tools);

// The request that an agent with a context sends next in this state, as bytes: a pure function of
// task, fold and artifacts, so equal on every call. A scripted agent's is written as for OpenAI.
// Error invalid: the run's agent has no context.
Result<std::string> next_request(const Task& task, const State& state,
                                 const std::function<Result<std::string>(const std::string&)>& artifact);

// What the agent is told of where it stands: goal, best, budget, advice. Behind every request.
std::string standing_text(const Task& task, const State& state);

// The search itself, pure: a function of seed and history. Exposed for the benchmark on exhaustively
// measured spaces (docs/performance.md).
struct Trial {
  Configuration configuration;
  double score = 0;          // speed-up over the baseline; 0 when it failed
  double uncertainty = 0;    // half width, relative
  bool failed = false;       // any verdict without a figure
  int64_t number = 0;        // of the attempt, for hypotheses; 0: its place in the history
};
struct Proposal {
  Configuration configuration;
  std::string hypothesis, category;   // why this one, in a sentence: "climb: CHUNK 32 → 64 from #12"
};
// Nothing: every valid configuration has been tried.
std::optional<Proposal> propose(const Task& task, uint64_t seed, const std::vector<Trial>& history);

}  // namespace marathon
