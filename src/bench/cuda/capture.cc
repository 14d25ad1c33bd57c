#include "bench/cuda/capture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>

namespace marathon {

using namespace cuda;

namespace {

// Marks in the list of launch parameters that ends with 0 (cuda.h: CU_LAUNCH_PARAM_*).
const void* const extra_end = nullptr;
const void* const extra_buffer = reinterpret_cast<const void*>(1);
const void* const extra_size = reinterpret_cast<const void*>(2);

const char* refusal_of(CUgraphNodeType type) {
  switch (type) {
    case CU_GRAPH_NODE_TYPE_HOST:
      return "a host function: code on the CPU cannot be replayed";
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      return "an external event: nothing outside of the call may be waited for or told";
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
      return "an external semaphore: nothing outside of the call may be waited for or told";
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      return "an allocation: use the workspace (marathon_workspace_bytes)";
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
      return "memory operations of a stream: use events to order streams";
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
      return "a conditional node: decide inside of a kernel";
    default:
      return nullptr;
  }
}

class Reader {
 public:
  Reader(const Driver& driver, const Images& images) : driver_(driver), images_(images) {}

  // Appends the nodes of `graph`; roots and leaves are those without a node before or after.
  Status append(CUgraph graph, std::vector<int64_t>& roots, std::vector<int64_t>& leaves) {
    size_t count = 0;
    TRY(driver_.ok(driver_.cuGraphGetNodes(graph, nullptr, &count), "count a graph's nodes"));
    std::vector<CUgraphNode> nodes(count);
    if (count > 0)
      TRY(driver_.ok(driver_.cuGraphGetNodes(graph, nodes.data(), &count), "read a graph"));
    if (static_cast<int64_t>(plan_.nodes.size() + count) > max_plan_nodes)
      return fail(Fault::invalid, fmt::format("one call launches more than {} kernels and copies",
                                              max_plan_nodes));
    std::map<CUgraphNode, Ends> ends;
    for (const CUgraphNode node : nodes) ends[node] = TRY(append_node(node));
    TRY(append_edges(graph, ends));
    for (const auto& [node, place] : ends) {
      if (!place.has_before) roots.push_back(place.entry);
      if (!place.has_after) leaves.push_back(place.exit);
    }
    return {};
  }

  PlanGraph take() { return std::move(plan_); }

 private:
  // Where a node of the captured graph stands in the plan; a child graph becomes many.
  struct Ends {
    int64_t entry = 0, exit = 0;
    bool has_before = false, has_after = false;
  };

  int64_t add(PlanNode node) {
    plan_.nodes.push_back(std::move(node));
    return static_cast<int64_t>(plan_.nodes.size()) - 1;
  }

  Status append_edges(CUgraph graph, std::map<CUgraphNode, Ends>& ends) {
    size_t count = 0;
    TRY(driver_.ok(driver_.cuGraphGetEdges(graph, nullptr, nullptr, nullptr, &count),
                   "count a graph's edges"));
    if (count == 0) return {};
    std::vector<CUgraphNode> from(count), to(count);
    std::vector<CUgraphEdgeData> data(count);
    TRY(driver_.ok(driver_.cuGraphGetEdges(graph, from.data(), to.data(), data.data(), &count),
                   "read a graph's edges"));
    for (size_t i = 0; i < count; ++i) {
      Ends &before = ends[from[i]], &after = ends[to[i]];
      before.has_after = after.has_before = true;
      plan_.edges.push_back({before.exit, after.entry, data[i].from_port, data[i].type});
    }
    return {};
  }

  Result<Ends> append_node(CUgraphNode node) {
    CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
    TRY(driver_.ok(driver_.cuGraphNodeGetType(node, &type), "ask for a node's type"));
    if (const char* why = refusal_of(type))
      return fail(Fault::invalid, fmt::format("its graph has {}", why));
    PlanNode made;
    switch (type) {
      case CU_GRAPH_NODE_TYPE_KERNEL:
        made.kernel = TRY(read_kernel(node));
        break;
      case CU_GRAPH_NODE_TYPE_MEMSET:
        made.kind = PlanNodeKind::memset;
        made.memset = TRY(read_memset(node));
        break;
      case CU_GRAPH_NODE_TYPE_MEMCPY:
        made.kind = PlanNodeKind::copy;
        made.copy = TRY(read_copy(node));
        break;
      case CU_GRAPH_NODE_TYPE_EMPTY:
        made.kind = PlanNodeKind::empty;
        break;
      case CU_GRAPH_NODE_TYPE_GRAPH:
        return append_child(node);
      default:
        return fail(Fault::invalid, fmt::format("its graph has a node of an unknown type ({})",
                                                static_cast<int>(type)));
    }
    const int64_t index = add(std::move(made));
    return Ends{index, index};
  }

  Result<Ends> append_child(CUgraphNode node) {
    CUgraph child = nullptr;
    TRY(driver_.ok(driver_.cuGraphChildGraphNodeGetGraph(node, &child), "open a child graph"));
    PlanNode nothing;
    nothing.kind = PlanNodeKind::empty;
    const Ends ends{add(nothing), add(nothing)};
    std::vector<int64_t> roots, leaves;
    TRY(append(child, roots, leaves));
    for (const int64_t root : roots) plan_.edges.push_back({ends.entry, root});
    for (const int64_t leaf : leaves) plan_.edges.push_back({leaf, ends.exit});
    if (roots.empty()) plan_.edges.push_back({ends.entry, ends.exit});
    return ends;
  }

  Result<PlanKernel> read_kernel(CUgraphNode node) {
    CUDA_KERNEL_NODE_PARAMS params = {};
    TRY(driver_.ok(driver_.cuGraphKernelNodeGetParams(node, &params), "read a kernel node"));
    CUfunction function = params.func;
    if (!function) {
      TRY(driver_.ok(driver_.cuKernelGetFunction(&function, params.kern), "find a kernel"));
    }
    PlanKernel kernel;
    const char* name = nullptr;
    TRY(driver_.ok(driver_.cuFuncGetName(&name, function), "ask for a kernel's name"));
    kernel.name = name ? name : "";
    if (const auto image = images_.find(function); image != images_.end())
      kernel.image = image->second;
    kernel.grid = {params.gridDimX, params.gridDimY, params.gridDimZ};
    kernel.block = {params.blockDimX, params.blockDimY, params.blockDimZ};
    kernel.dynamic_shared_bytes = params.sharedMemBytes;
    TRY(read_function_attributes(function, kernel));
    TRY(read_launch_attributes(node, kernel));
    TRY(read_parameters(function, params, kernel));
    return kernel;
  }

  Status read_function_attributes(CUfunction function, PlanKernel& kernel) {
    int value = 0;
    const auto read = [&](CUfunction_attribute attribute) {
      return driver_.ok(driver_.cuFuncGetAttribute(&value, attribute, function),
                        "read a kernel's attribute");
    };
    TRY(read(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES));
    kernel.max_dynamic_shared_bytes = value;
    TRY(read(CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT));
    kernel.carveout = value;
    TRY(read(CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED));
    kernel.non_portable_cluster = value != 0;
    return {};
  }

  // An attribute that this driver does not know for nodes is not set.
  bool launch_attribute(CUgraphNode node, CUlaunchAttributeID id, CUlaunchAttributeValue& value) {
    std::memset(&value, 0, sizeof value);
    return driver_.cuGraphKernelNodeGetAttribute(node, id, &value) == 0;
  }

  Status read_launch_attributes(CUgraphNode node, PlanKernel& kernel) {
    CUlaunchAttributeValue value;
    if (launch_attribute(node, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, value))
      kernel.cluster = {value.clusterDim.x, value.clusterDim.y, value.clusterDim.z};
    if (launch_attribute(node, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, value))
      kernel.cooperative = value.cooperative != 0;
    if (launch_attribute(node, CU_LAUNCH_ATTRIBUTE_PRIORITY, value)) {
      kernel.priority = value.priority;
      kernel.has_priority = value.priority != 0;
    }
    if (launch_attribute(node, CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW, value) &&
        value.accessPolicyWindow.num_bytes > 0)
      return fail(Fault::invalid,
                  "a kernel has an access policy window: persisting lines of L2 would carry data "
                  "from call to call");
    return {};
  }

  Status read_parameters(CUfunction function, const CUDA_KERNEL_NODE_PARAMS& params,
                         PlanKernel& kernel) {
    const char* packed = nullptr;
    size_t packed_bytes = 0;
    for (void** extra = params.extra; extra && *extra != extra_end; extra += 2) {
      if (*extra == extra_buffer) packed = static_cast<const char*>(extra[1]);
      if (*extra == extra_size) packed_bytes = *static_cast<const size_t*>(extra[1]);
    }
    for (size_t i = 0;; ++i) {
      size_t offset = 0, size = 0;
      if (driver_.cuFuncGetParamInfo(function, i, &offset, &size) != 0) return {};
      if (static_cast<int64_t>(i) >= max_plan_parameters ||
          static_cast<int64_t>(offset + size) > max_plan_parameter_bytes)
        return fail(Fault::invalid, "kernel " + kernel.name + " takes too many parameters");
      const char* bytes = nullptr;
      if (params.kernelParams) {
        bytes = static_cast<const char*>(params.kernelParams[i]);
      } else if (packed && offset + size <= packed_bytes) {
        bytes = packed + offset;
      }
      if (!bytes) return fail(Fault::invalid, "kernel " + kernel.name + " lacks a parameter");
      kernel.parameters.push_back({static_cast<int64_t>(offset), std::string(bytes, size)});
    }
  }

  Result<PlanMemset> read_memset(CUgraphNode node) {
    CUDA_MEMSET_NODE_PARAMS params = {};
    TRY(driver_.ok(driver_.cuGraphMemsetNodeGetParams(node, &params), "read a memset node"));
    PlanMemset memset;
    memset.address = params.dst;
    memset.width = static_cast<int64_t>(params.width);
    memset.height = std::max<int64_t>(static_cast<int64_t>(params.height), 1);
    memset.pitch = static_cast<int64_t>(params.pitch);
    memset.element_bytes = params.elementSize;
    memset.value = params.value;
    return memset;
  }

  Result<PlanCopy> read_copy(CUgraphNode node) {
    CUDA_MEMCPY3D params = {};
    TRY(driver_.ok(driver_.cuGraphMemcpyNodeGetParams(node, &params), "read a copy node"));
    const auto on_device = [](CUmemorytype type) {
      return type == CU_MEMORYTYPE_DEVICE || type == CU_MEMORYTYPE_UNIFIED;
    };
    if (!on_device(params.srcMemoryType) || !on_device(params.dstMemoryType))
      return fail(Fault::invalid,
                  "its graph copies from or to the host or an array: work on tensors and workspace");
    PlanCopy copy;
    copy.width_bytes = static_cast<int64_t>(params.WidthInBytes);
    copy.height = std::max<int64_t>(static_cast<int64_t>(params.Height), 1);
    copy.depth = std::max<int64_t>(static_cast<int64_t>(params.Depth), 1);
    copy.from_pitch = static_cast<int64_t>(params.srcPitch);
    copy.from_height = static_cast<int64_t>(params.srcHeight);
    copy.to_pitch = static_cast<int64_t>(params.dstPitch);
    copy.to_height = static_cast<int64_t>(params.dstHeight);
    copy.from = params.srcDevice + params.srcXInBytes + params.srcY * params.srcPitch +
                params.srcZ * params.srcPitch * params.srcHeight;
    copy.to = params.dstDevice + params.dstXInBytes + params.dstY * params.dstPitch +
              params.dstZ * params.dstPitch * params.dstHeight;
    return copy;
  }

  const Driver& driver_;
  const Images& images_;
  PlanGraph plan_;
};

}  // namespace

Result<PlanGraph> plan_of_graph(const Driver& driver, CUgraph graph, const Images& images) {
  Reader reader(driver, images);
  std::vector<int64_t> roots, leaves;
  TRY(reader.append(graph, roots, leaves));
  return reader.take();
}

}  // namespace marathon
