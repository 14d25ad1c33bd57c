// What one evaluation needs everywhere: task, oracles, random numbers, the core, and for each shape
// its buffers' sizes, samplers and bounds. And one window: the unit of running and of checking.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/random.h"
#include "bench/buffers.h"
#include "bench/compare.h"
#include "bench/inputs.h"
#include "bench/oracle.h"
#include "bench/request.h"
#include "bench/worker_client.h"
#include "core/verdict.h"

namespace marathon {

struct ShapePlan {
  const Shape* shape = nullptr;
  std::vector<int64_t> dims;
  std::vector<std::vector<int64_t>> extents;  // by tensor
  ShapeSizes sizes;
  std::vector<Sampler> samplers;        // by tensor; empty ones for outputs
  std::map<size_t, ErrorBound> bounds;  // by tensor index, outputs only; set by the check
  int32_t sets = 1,
          warm_up_sets = 0;  // calls in a window, and in the one before it
  int64_t rounds = 1;
  double call_s = 0, oracle_s = 0;  // from the check, to plan sets and rounds

  int64_t input_bytes() const;   // of one set, packed
  double touched_bytes() const;  // inputs and outputs of one call
};

// A failure of one implementation at one shape.
struct ShapeFailure {
  VerdictKind kind = VerdictKind::wrong;
  std::string why;
};

struct Session {
  const BenchRequest& request;
  const Task& task;
  Oracle reference, emulation;
  Random random;
  int core = -1;
  bool apart = false;            // the judge has a core of its own
  std::vector<ShapePlan> plans;  // in the order of task.shapes
  std::vector<char> sweep;       // twice the last level of cache
  std::string sandbox;           // level that the workers reached

  Result<Worker> start(const std::filesystem::path& library, int64_t input_bytes,
                       int64_t output_bytes);
};

// Sizes and samplers of every shape; workspaces not yet.
Result<std::unique_ptr<Session>> make_session(const BenchRequest& request, const Task& task,
                                              uint64_t seed);
// Each implementation names its workspace, in a worker of its own; the largest is given to all, so
// that addresses tell nothing.
Result<std::optional<WorkerFailure>> ask_workspaces(Session& session,
                                                    const std::filesystem::path& library);

// Inputs of one call and what must come out.
struct Solved {
  uint64_t seed = 0;
  std::vector<char> inputs;      // packed in tensor order; empty: drawn again from the seed
  std::vector<Values> expected;  // by tensor index; empty for inputs
  std::vector<Values> emulated;  // only when asked for
};

enum class Keep { inputs, seed };
Result<Solved> solve(const Session& session, const ShapePlan& plan, uint64_t seed, Keep keep,
                     bool with_emulation);

// Problems with their inputs in memory, ready to be copied to any number of workers.
class Window {
 public:
  static Result<Window> make(const ShapePlan& plan, std::span<const Solved* const> problems);
  int32_t sets() const { return static_cast<int32_t>(problems_.size()); }
  const Solved& problem(int32_t set) const { return *problems_[static_cast<size_t>(set)]; }
  const std::vector<char>& inputs(int32_t set) const;

 private:
  std::vector<const Solved*> problems_;
  std::vector<std::vector<char>> drawn_;  // of those that kept only their seed
};

// A window that was run: its outputs stand in the worker's arena.
struct Run {
  Layout layout;
  WindowTimes times;
};

// Draws a layout, copies the inputs, poisons the outputs, runs all sets and looks at the canaries.
// For CacheState::cold the caches are swept before; for warm, copying from the worker's own core
// has left the data as near to it as they fit.
std::optional<ShapeFailure> run_window(Session& session, const ShapePlan& plan,
                                       const Window& window, Worker& worker, CacheState cache,
                                       Run& run);

// An empty window: what asking and answering cost.
std::optional<ShapeFailure> run_empty(Session& session, const ShapePlan& plan, Worker& worker,
                                      WindowTimes& times);

Values output_of(const Session& session, const ShapePlan& plan, const Run& run, int32_t set,
                 size_t tensor, const Worker& worker);

// Checks every output of every set against the plan's bounds.
std::optional<ShapeFailure> check_window(const Session& session, const ShapePlan& plan,
                                         const Window& window, const Run& run,
                                         const Worker& worker);

// The shapes that this request looks at: all, or for a quick look the first listed shape and the
// stress shapes.
bool is_looked_at(const Session& session, const ShapePlan& plan);

}  // namespace marathon
