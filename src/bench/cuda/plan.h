// A plan: what one call of a candidate does on the GPU, as data. The worker, which ran the
// candidate's host code, writes it; everybody else only reads it, and strictly.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace marathon {

enum class PlanNodeKind { kernel, memset, copy, empty };

struct PlanKernel {
  std::string name;   // mangled, as the cubin has it
  std::string image;  // SHA-256 of the cubin; empty: the one cubin of this build that has the name
  std::array<int64_t, 3> grid = {1, 1, 1}, block = {1, 1, 1};
  std::array<int64_t, 3> cluster = {0, 0, 0};  // 0: no cluster
  int64_t dynamic_shared_bytes = 0;
  int64_t max_dynamic_shared_bytes = 0;  // the function's attribute; 0: as the cubin says
  int64_t carveout = -1;                 // preferred share of shared memory in per cent; -1: default
  bool non_portable_cluster = false, cooperative = false;
  int64_t priority = 0;
  bool has_priority = false;
  // Bytes of each parameter at its offset, in the order of the kernel's signature.
  struct Parameter {
    int64_t offset = 0;
    std::string bytes;
  };
  std::vector<Parameter> parameters;
};

// Sets `height` rows of `width` elements; `element_bytes` is 1, 2 or 4.
struct PlanMemset {
  uint64_t address = 0;
  int64_t width = 0, height = 1, pitch = 0, element_bytes = 1;
  uint32_t value = 0;
};

// Device to device, as cuMemcpy3D has it.
struct PlanCopy {
  uint64_t from = 0, to = 0;
  int64_t width_bytes = 0, height = 1, depth = 1;
  int64_t from_pitch = 0, from_height = 0, to_pitch = 0, to_height = 0;
};

struct PlanNode {
  PlanNodeKind kind = PlanNodeKind::kernel;
  PlanKernel kernel;
  PlanMemset memset;
  PlanCopy copy;
};

// `type` 0: full dependency; 1: programmatic (a kernel may start before the one before it ends).
struct PlanEdge {
  int64_t from = 0, to = 0;
  int64_t from_port = 0, type = 0;
};

struct PlanGraph {
  std::vector<PlanNode> nodes;
  std::vector<PlanEdge> edges;
};

// Where the buffers stood in the worker. The replayer maps them at the same addresses.
struct PlanArena {
  uint64_t address = 0;
  int64_t bytes = 0;
};

struct Plan {
  std::vector<PlanArena> arenas;
  std::vector<PlanGraph> graphs;  // one a buffer set
};

// Limits of what is believed: beyond them the candidate is refused.
inline constexpr int64_t max_plan_nodes = 4096, max_plan_parameters = 512,
                         max_plan_parameter_bytes = 32768, max_plan_file_bytes = 256LL << 20;

Json to_json(const Plan& plan);
// Error invalid says what is wrong with it. Nothing in `json` is trusted: sizes, indices, kinds and
// numbers are checked, and memsets and copies must lie in the arenas as a whole.
Result<Plan> plan_from_json(const Json& json);

// Names of all kernels, each once.
std::vector<std::string> kernel_names(const Plan& plan);

// Whether the graph without edges' direction can be run in order: no cycle, no edge to itself.
Status check_order(const PlanGraph& graph);

}  // namespace marathon
