// What one evaluation on a GPU needs everywhere: the device, the judge's kernels, the oracles, the
// buffers, and each shape's layout and secret places.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/random.h"
#include "bench/cuda/gpu_process.h"
#include "bench/cuda/kernels.h"
#include "bench/cuda/replay.h"
#include "bench/request.h"
#include "bench/session.h"

namespace marathon {

// The two arenas: what a candidate reads, and what it may write.
enum GpuArena : int64_t { input_arena = 0, output_arena = 1 };

// One shape: sizes come from the task, the workspace from the implementations.
struct GpuShape {
  ShapePlan plan;  // samplers of host tensors only
  size_t index = 0;
  std::vector<std::vector<int64_t>> compact;  // by tensor: extents of what the oracle computes
  // By set and tensor: offset in its arena; by set: where outputs and workspace begin and end.
  std::vector<std::vector<int64_t>> offsets;
  std::vector<int64_t> workspaces, output_begin, output_end;
  std::vector<int64_t> input_begin, input_end;
  // By set and tensor: the content of tensors with host = true.
  std::vector<std::vector<std::string>> host;
};

// A problem in device memory: secret places and expected outputs.
struct GpuSolved {
  uint64_t seed = 0;
  int64_t set = 0;
  std::vector<uint64_t> expected, emulated, indices;  // by tensor; 0: none
};

// Device memory that is given back with it.
class DeviceMemory {
 public:
  static Result<DeviceMemory> make(const Gpu& gpu, int64_t bytes);
  DeviceMemory(DeviceMemory&& other) noexcept;
  DeviceMemory& operator=(DeviceMemory&&) = delete;
  ~DeviceMemory();
  uint64_t address() const { return address_; }

 private:
  DeviceMemory(const Gpu& gpu, uint64_t address) : gpu_(&gpu), address_(address) {}
  const Gpu* gpu_;
  uint64_t address_;
};

class GpuSession {
 public:
  static Result<std::unique_ptr<GpuSession>> make(const BenchRequest& request, const Task& task);
  ~GpuSession();
  GpuSession(const GpuSession&) = delete;
  GpuSession& operator=(const GpuSession&) = delete;

  // Layouts and arenas, once the workspaces are known (GpuShape::plan.sizes.workspace_bytes).
  Status lay_out();

  const Gpu& gpu() const { return gpu_; }
  const BenchRequest& request() const { return request_; }
  const Task& task() const { return task_; }
  std::vector<GpuShape>& shapes() { return shapes_; }
  Random& random() { return random_; }
  const DeviceArena& arena(GpuArena which) const { return *arenas_[static_cast<size_t>(which)]; }

  uint64_t address(const GpuShape& shape, int64_t set, size_t tensor) const;
  // Fresh inputs into one buffer set. Tensors with host = true keep the set's content.
  Status fill(const GpuShape& shape, int64_t set, uint64_t seed);
  // Fills, draws secret places, and lets the oracle compute what must come out.
  Result<GpuSolved> solve(const GpuShape& shape, int64_t set, uint64_t seed, bool with_emulation);
  Status poison(const GpuShape& shape, int64_t set, uint64_t seed);
  // A sum over all inputs of a set.
  Result<uint64_t> digest_inputs(const GpuShape& shape, int64_t set);
  Result<uint64_t> digest_outputs(const GpuShape& shape, int64_t set);

  // Errors of one output in its buffer, or of the emulation.
  Result<ErrorFigures> errors(const GpuShape& shape, const GpuSolved& solved, size_t tensor,
                              bool of_emulation);
  // What an output may err when the emulation errs so.
  Result<ErrorBound> bound_for(const GpuShape& shape, size_t tensor,
                               const ErrorFigures& honest) const;
  // The emulation again, on the inputs that the set has now, at the same places.
  Status emulate(const GpuShape& shape, const GpuSolved& solved);
  // Empty: nothing outside of the outputs and the workspace was written.
  Result<std::string> broken_canary(const GpuShape& shape, int64_t set, uint64_t seed);
  // The longest time that something else had the GPU while the judge's own kernel ran, in ns.
  Result<double> idle_probe();
  Status synchronise() const;

  // Of a process that has the arenas at `inputs` and `outputs`.
  ReplayMemory replay_memory(const GpuShape& shape, uint64_t inputs, uint64_t outputs) const;
  void forget_solved();  // frees all that solve() took

 private:
  GpuSession(const BenchRequest& request, const Task& task)
      : request_(request), task_(task), random_(request.seed) {}
  Status open();
  Status plan_shapes();
  Status load_oracles();
  Result<uint64_t> take(int64_t bytes);
  Status run_oracle(void* entry, const GpuShape& shape, const GpuSolved& solved,
                    const std::vector<uint64_t>& outputs);
  Result<uint64_t> digest(uint64_t address, int64_t bytes);

  const BenchRequest& request_;
  const Task& task_;
  Random random_;
  Gpu gpu_;
  std::optional<JudgeKernels> kernels_;
  std::vector<GpuShape> shapes_;
  std::vector<std::optional<DeviceArena>> arenas_;
  std::vector<DeviceMemory> kept_;
  std::optional<DeviceMemory> small_;  // for results of single words
  cuda::CUstream stream_ = nullptr;
  void *reference_ = nullptr, *emulation_ = nullptr;
  std::vector<void*> handles_;
};

}  // namespace marathon
