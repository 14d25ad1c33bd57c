// Builds graphs from plans and times their replays. Runs in a process that never ran a line of the
// candidate's host code.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "bench/cuda/kernels.h"
#include "bench/cuda/plan.h"

namespace marathon {

enum class GpuCache {
  cold,     // twice L2 of zeros written, twice L2 of clean lines read, persisting lines reset
  warm,     // as cold, and the set's inputs read after that: as much of them as fits is in L2
  as_it_is  // not timed for a figure
};

struct AddressRange {
  uint64_t address = 0;
  int64_t bytes = 0;
};

// What belongs to one shape of the judge's buffers. Together the sets' own ranges and the rest are
// all that a candidate can write.
struct ReplayMemory {
  struct Set {
    AddressRange own;  // outputs, workspace and what lies between
    AddressRange workspace, inputs;  // the workspace is a part of it
  };
  std::vector<Set> sets;
  AddressRange rest;
};

// Event times of single replays, and the process's own clock over all of them.
struct ReplayTimes {
  std::vector<double> event_ns;
  double wall_ns = 0;
};

class Replayer {
 public:
  // `cubins`: of this build, bytes by SHA-256. A kernel that none of them has is refused
  // (Fault::invalid).
  static Result<Replayer> make(const Gpu& gpu, const std::map<std::string, std::string>& cubins,
                               const std::string& judge_image);
  Replayer(Replayer&&) noexcept;
  Replayer& operator=(Replayer&&) = delete;
  ~Replayer();

  Status add(int64_t shape, const Plan& plan, ReplayMemory memory);
  // Graphs that were captured in this process: of a trusted baseline.
  Status add_captured(int64_t shape, const std::vector<cuda::CUgraph>& graphs,
                      ReplayMemory memory);
  void forget(int64_t shape);

  // Replays each of `sets` once, in that order, alone, behind a blocked stream, so that no launch gap
  // is in the window. `discard` replays come before and do not count. Before each timed replay all
  // that can be written is overwritten but the outputs that still have to be looked at.
  Result<ReplayTimes> run(int64_t shape, const std::vector<int64_t>& sets, GpuCache cache,
                          int64_t discard, uint64_t seed);
  // One replay of one set with nothing around it, between the marks that a profiler looks for.
  Status once(int64_t shape, int64_t set);
  // `count` times flush and, with_kernel, replay of the sets in turn, back to back without waiting:
  // for the slope, which knows nothing of events. Wall time in ns.
  Result<double> batch(int64_t shape, int64_t count, bool with_kernel);

 private:
  struct Ready {
    std::vector<cuda::CUgraphExec> graphs;  // by buffer set
    ReplayMemory memory;
  };
  explicit Replayer(const Gpu& gpu) : gpu_(&gpu) {}
  Status prepare(const std::string& judge_image);
  Result<cuda::CUfunction> find(const PlanKernel& kernel);
  Result<cuda::CUgraphNode> add_node(cuda::CUgraph graph, const PlanNode& node);
  Result<cuda::CUgraphNode> add_kernel(cuda::CUgraph graph, const PlanKernel& kernel);
  Result<cuda::CUgraphExec> build(const PlanGraph& plan);
  Result<cuda::CUgraphExec> instantiate(cuda::CUgraph graph);
  Status flush();
  Status read(const AddressRange& range);
  Status poison(const AddressRange& range, uint64_t seed);
  // Everything, but of the sets in `kept` only the workspace.
  Status wipe(const ReplayMemory& memory, const std::set<int64_t>& kept, uint64_t seed);
  Result<double> time_one(cuda::CUgraphExec graph);
  Result<Ready*> ready(int64_t shape, int64_t set);

  const Gpu* gpu_;
  std::map<std::string, Module> modules_;             // by SHA-256 of the cubin
  std::vector<JudgeKernels> judge_;  // one
  std::map<std::string, cuda::CUfunction> functions_;  // by image and name
  std::map<int64_t, Ready> shapes_;
  cuda::CUstream stream_ = nullptr;
  cuda::CUevent begin_ = nullptr, end_ = nullptr;
  cuda::CUdeviceptr scratch_ = 0;  // four times L2
  uint32_t* gate_ = nullptr;       // host memory that the stream waits for
  cuda::CUdeviceptr gate_on_device_ = 0;
  uint32_t opened_ = 0;
};

}  // namespace marathon
