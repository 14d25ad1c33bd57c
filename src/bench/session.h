// What one evaluation needs everywhere: task, oracles, random numbers, the core, and for each shape
// its buffers' sizes, input pools and bounds.
#pragma once

#include <map>
#include <memory>
#include <optional>
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
  ShapeSizes sizes;
  std::vector<InputPool> pools;         // by tensor; empty pools for outputs
  std::map<size_t, ErrorBound> bounds;  // by tensor index, outputs only; set by the check
  int32_t sets = 1;                     // calls in a window
  int64_t rounds = 1;
  double call_s = 0, oracle_s = 0;  // from the check, to plan sets and rounds
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
  std::vector<ShapePlan> plans;  // in the order of task.shapes
  std::unique_ptr<Arena> inputs;
  int64_t output_bytes = 0;  // of each worker's arena

  WorkerOptions worker_options(const std::filesystem::path& library) const;
  Result<Worker> start(const std::filesystem::path& library) const;
};

// Sizes and pools of every shape. Workspace sizes are asked of `libraries`, each in a worker of its
// own. A failure of the candidate to answer is returned in `failure`.
Result<std::unique_ptr<Session>> make_session(const BenchRequest& request, const Task& task,
                                              uint64_t seed,
                                              const std::vector<std::filesystem::path>& libraries,
                                              std::optional<WorkerFailure>& failure);

// One window's problem: where the buffers stand and what must come out.
struct Window {
  Layout layout;
  std::vector<std::map<size_t, std::vector<double>>> expected;  // [set][tensor index]
  std::vector<std::map<size_t, std::vector<double>>> emulated;  // only when asked for
};

// Draws a layout, writes fresh inputs and asks the oracle. `sets` ≤ max_sets.
Result<Window> make_window(Session& session, const ShapePlan& plan, int32_t sets,
                           bool with_emulation);

// Poisons the worker's arena, runs `run_sets` of the window's sets, checks canaries. Times only
// when `times` is given. The outputs are left in the worker's arena.
std::optional<ShapeFailure> run_window(Session& session, const ShapePlan& plan,
                                       const Window& window, int32_t run_sets, Worker& worker,
                                       WindowTimes* times);

std::vector<double> output_of(const Session& session, const ShapePlan& plan, const Window& window,
                              int32_t set, size_t tensor, const Worker& worker);

// Checks the outputs of the first `run_sets` sets against the plan's bounds.
std::optional<ShapeFailure> check_window(const Session& session, const ShapePlan& plan,
                                         const Window& window, int32_t run_sets,
                                         const Worker& worker);

// Puts this thread on a core other than `core` where there is one, and back.
void stand_aside_of(int core);
void stand_on(int core);

// The last core that this process may use.
int last_allowed_core();

}  // namespace marathon
