// Agents: who proposes. The one door.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/result.h"
#include "core/state.h"
#include "core/task.h"

namespace marathon {

// What an agent is asked with. Everything it may know, and nothing else.
struct Context {
  const Task& task;
  const State& state;
};

struct Turn {
  std::string text;
  std::vector<ToolCall> calls;
  int64_t input_tokens = 0, output_tokens = 0;
  bool exhausted = false;             // nothing more to propose
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
