// From implementations to plans: starts each worker, asks for workspaces, captures every shape, and
// is done with them before a real input exists.
#pragma once

#include "bench/cuda/gpu_session.h"
#include "bench/measure.h"

namespace marathon {

struct GpuImplementation {
  std::filesystem::path library;  // a shared object, or a Python module
  std::vector<std::filesystem::path> cubins;
  bool is_trusted = false;  // a Python baseline, whose kernels are a library's: replayed in its worker
  bool empty() const { return library.empty(); }
  bool is_python() const { return library.extension() == ".py"; }
};

// Plans of one implementation, as files that the judge has read and found in order.
struct GpuPlans {
  GpuImplementation implementation;
  std::vector<PlanArena> arenas;             // where the worker had the judge's arenas
  std::vector<std::filesystem::path> files;  // by shape; empty: not looked at
  std::string sandbox;
  // Of a trusted implementation: its one process, alive for the whole evaluation (torch takes seconds
  // to start). Null: it is planned, and each restart replays it in a fresh process.
  std::shared_ptr<GpuProcess> trusted;
};

struct Planned {
  std::vector<GpuPlans> arms;            // by Arm; without library: left out
  std::optional<ShapeFailure> failure;   // the candidate's
  std::string failed_shape, failed_set;  // empty: at no shape
  std::string ambiguous;                 // the baseline's or the incumbent's
};

// `implementations` by Arm. Lays out the session's arenas. `folder` keeps the plans.
Result<Planned> plan_all(GpuSession& session, const std::vector<GpuImplementation>& implementations,
                         const std::filesystem::path& folder);

// A replayer of one implementation with nothing added yet. It opens the GPU while the caller goes on:
// finish_start() waits for that.
Result<std::shared_ptr<GpuProcess>> begin_start(GpuSession& session, const GpuPlans& plans,
                                                const std::filesystem::path& folder);
std::optional<WorkerFailure> finish_start(const GpuPlans& plans, GpuProcess& replayer);
// Adds one shape's graphs to a replayer.
std::optional<WorkerFailure> add_shape(GpuSession& session, const GpuPlans& plans,
                                       const GpuShape& shape, GpuProcess& replayer);

bool is_looked_at(const GpuSession& session, const GpuShape& shape);

}  // namespace marathon
