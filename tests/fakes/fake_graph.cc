// The fake driver's graphs: nodes, edges, and a copy of the work in an order that the edges allow.
#include <algorithm>
#include <cstring>

#include "fake_cuda.h"

namespace marathon::fake {

namespace {

bool is_node(CUgraphNode node, CUgraphNodeType type) {
  return world().nodes.has(node) && node->work.type == type;
}

bool has_node(CUgraph graph, CUgraphNode node) {
  return std::find(graph->nodes.begin(), graph->nodes.end(), node) != graph->nodes.end();
}

CUresult add(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, size_t count, Work work) {
  if (!world().graphs.has(graph)) return CUDA_ERROR_INVALID_HANDLE;
  const std::set<CUgraphNode> before(after, after + count);
  for (const CUgraphNode one : before) {
    if (!has_node(graph, one)) return CUDA_ERROR_INVALID_VALUE;
  }
  if (const CUresult wrong = check_work(work)) return wrong;
  *node = add_work(graph, std::move(work), before);
  return CUDA_SUCCESS;
}

// Kahn (1962), the earlier node first among those that may run.
bool in_order(CUgraph graph, std::vector<CUgraphNode>& order) {
  std::map<CUgraphNode, int64_t> waits;
  for (const CUgraph_st::Edge& edge : graph->edges) waits[edge.to] += 1;
  std::set<CUgraphNode> ran;
  while (order.size() < graph->nodes.size()) {
    const auto next = std::find_if(graph->nodes.begin(), graph->nodes.end(), [&](CUgraphNode node) {
      return !ran.contains(node) && waits[node] == 0;
    });
    if (next == graph->nodes.end()) return false;
    ran.insert(*next);
    order.push_back(*next);
    for (const CUgraph_st::Edge& edge : graph->edges) {
      if (edge.from == *next) waits[edge.to] -= 1;
    }
  }
  return true;
}

// Appends the graph's work, child graphs in their place.
CUresult flatten(CUgraph graph, std::vector<Work>& works) {
  std::vector<CUgraphNode> order;
  if (!in_order(graph, order)) return CUDA_ERROR_INVALID_VALUE;
  for (const CUgraphNode node : order) {
    switch (node->work.type) {
      case CU_GRAPH_NODE_TYPE_GRAPH:
        if (const CUresult wrong = flatten(node->work.child, works)) return wrong;
        break;
      case CU_GRAPH_NODE_TYPE_KERNEL:
      case CU_GRAPH_NODE_TYPE_MEMSET:
      case CU_GRAPH_NODE_TYPE_MEMCPY:
      case CU_GRAPH_NODE_TYPE_EMPTY:
        works.push_back(node->work);
        break;
      default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
  }
  return CUDA_SUCCESS;
}

}  // namespace

CUgraphNode add_work(CUgraph graph, Work work, const std::set<CUgraphNode>& after) {
  const CUgraphNode node = world().nodes.make();
  node->work = std::move(work);
  for (std::string& bytes : node->work.kernel.parameters) node->pointers.push_back(bytes.data());
  graph->nodes.push_back(node);
  for (const CUgraphNode before : after) graph->edges.push_back({before, node, {}});
  return node;
}

CUgraph clone_graph(CUgraph graph) {
  const CUgraph copy = world().graphs.make();
  std::map<CUgraphNode, CUgraphNode> same;
  for (const CUgraphNode node : graph->nodes) {
    Work work = node->work;
    if (work.child) work.child = clone_graph(work.child);
    same[node] = add_work(copy, std::move(work), {});
  }
  for (const CUgraph_st::Edge& edge : graph->edges)
    copy->edges.push_back({same[edge.from], same[edge.to], edge.data});
  return copy;
}

void destroy_graph(CUgraph graph) {
  for (const CUgraphNode node : graph->nodes) {
    if (node->work.child) destroy_graph(node->work.child);
    world().nodes.erase(node);
  }
  world().graphs.erase(graph);
}

CUresult cuGraphCreate(CUgraph* graph, unsigned flags) {
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  *graph = world().graphs.make();
  return CUDA_SUCCESS;
}

CUresult cuGraphDestroy(CUgraph graph) {
  if (!world().graphs.has(graph)) return CUDA_ERROR_INVALID_HANDLE;
  destroy_graph(graph);
  return CUDA_SUCCESS;
}

// ---- reading

CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode* nodes, size_t* count) {
  if (!world().graphs.has(graph)) return CUDA_ERROR_INVALID_HANDLE;
  if (nodes) {
    *count = std::min(*count, graph->nodes.size());
    std::copy_n(graph->nodes.begin(), *count, nodes);
  } else {
    *count = graph->nodes.size();
  }
  return CUDA_SUCCESS;
}

CUresult cuGraphGetEdges(CUgraph graph, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* data,
                         size_t* count) {
  if (!world().graphs.has(graph)) return CUDA_ERROR_INVALID_HANDLE;
  if (!from || !to) {
    *count = graph->edges.size();
    return CUDA_SUCCESS;
  }
  *count = std::min(*count, graph->edges.size());
  for (size_t i = 0; i < *count; ++i) {
    from[i] = graph->edges[i].from;
    to[i] = graph->edges[i].to;
    if (data) data[i] = graph->edges[i].data;
  }
  return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType* type) {
  if (!world().nodes.has(node)) return CUDA_ERROR_INVALID_HANDLE;
  *type = node->work.type;
  return CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeGetParams(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS* params) {
  if (!is_node(node, CU_GRAPH_NODE_TYPE_KERNEL)) return CUDA_ERROR_INVALID_VALUE;
  const KernelCall& call = node->work.kernel;
  *params = {};
  params->func = call.function;
  params->gridDimX = call.grid[0];
  params->gridDimY = call.grid[1];
  params->gridDimZ = call.grid[2];
  params->blockDimX = call.block[0];
  params->blockDimY = call.block[1];
  params->blockDimZ = call.block[2];
  params->sharedMemBytes = call.shared;
  params->kernelParams = node->pointers.data();
  params->ctx = &world().context;
  return CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeGetAttribute(CUgraphNode node, CUlaunchAttributeID id,
                                       CUlaunchAttributeValue* value) {
  if (!is_node(node, CU_GRAPH_NODE_TYPE_KERNEL)) return CUDA_ERROR_INVALID_VALUE;
  const auto found = node->work.kernel.attributes.find(id);
  std::memset(value, 0, sizeof *value);
  if (found != node->work.kernel.attributes.end()) *value = found->second;
  return CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeSetAttribute(CUgraphNode node, CUlaunchAttributeID id,
                                       const CUlaunchAttributeValue* value) {
  if (!is_node(node, CU_GRAPH_NODE_TYPE_KERNEL)) return CUDA_ERROR_INVALID_VALUE;
  node->work.kernel.attributes[id] = *value;
  return CUDA_SUCCESS;
}

CUresult cuGraphMemsetNodeGetParams(CUgraphNode node, CUDA_MEMSET_NODE_PARAMS* params) {
  if (!is_node(node, CU_GRAPH_NODE_TYPE_MEMSET)) return CUDA_ERROR_INVALID_VALUE;
  *params = node->work.memset;
  return CUDA_SUCCESS;
}

CUresult cuGraphMemcpyNodeGetParams(CUgraphNode node, CUDA_MEMCPY3D* params) {
  if (!is_node(node, CU_GRAPH_NODE_TYPE_MEMCPY)) return CUDA_ERROR_INVALID_VALUE;
  *params = node->work.copy;
  return CUDA_SUCCESS;
}

CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph* graph) {
  if (!is_node(node, CU_GRAPH_NODE_TYPE_GRAPH)) return CUDA_ERROR_INVALID_VALUE;
  *graph = node->work.child;
  return CUDA_SUCCESS;
}

// ---- building

CUresult cuGraphAddKernelNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* after,
                              size_t count, const CUDA_KERNEL_NODE_PARAMS* params) {
  const CUfunction function =
      params->func ? params->func : reinterpret_cast<CUfunction>(params->kern);
  Work work;
  work.type = CU_GRAPH_NODE_TYPE_KERNEL;
  KernelCall& call = work.kernel;
  const unsigned grid[3] = {params->gridDimX, params->gridDimY, params->gridDimZ};
  const unsigned block[3] = {params->blockDimX, params->blockDimY, params->blockDimZ};
  std::copy_n(grid, 3, call.grid);
  std::copy_n(block, 3, call.block);
  call.shared = params->sharedMemBytes;
  if (const CUresult wrong = make_call(function, params->kernelParams, params->extra, call))
    return wrong;
  return add(node, graph, after, count, std::move(work));
}

CUresult cuGraphAddMemsetNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* after,
                              size_t count, const CUDA_MEMSET_NODE_PARAMS* params,
                              CUcontext context) {
  if (context != &world().context) return CUDA_ERROR_INVALID_CONTEXT;
  Work work;
  work.type = CU_GRAPH_NODE_TYPE_MEMSET;
  work.memset = *params;
  return add(node, graph, after, count, std::move(work));
}

CUresult cuGraphAddMemcpyNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* after,
                              size_t count, const CUDA_MEMCPY3D* params, CUcontext context) {
  if (context != &world().context) return CUDA_ERROR_INVALID_CONTEXT;
  Work work;
  work.type = CU_GRAPH_NODE_TYPE_MEMCPY;
  work.copy = *params;
  return add(node, graph, after, count, std::move(work));
}

CUresult cuGraphAddEmptyNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* after,
                             size_t count) {
  return add(node, graph, after, count, Work());
}

CUresult cuGraphAddDependencies(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                const CUgraphEdgeData* data, size_t count) {
  if (!world().graphs.has(graph)) return CUDA_ERROR_INVALID_HANDLE;
  for (size_t i = 0; i < count; ++i) {
    if (!has_node(graph, from[i]) || !has_node(graph, to[i]) || from[i] == to[i])
      return CUDA_ERROR_INVALID_VALUE;
    const bool known = std::any_of(graph->edges.begin(), graph->edges.end(), [&](const auto& edge) {
      return edge.from == from[i] && edge.to == to[i];
    });
    if (known) return CUDA_ERROR_INVALID_VALUE;
    graph->edges.push_back({from[i], to[i], data ? data[i] : CUgraphEdgeData{}});
  }
  return CUDA_SUCCESS;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph graph, unsigned long long flags) {
  if (flags != 0) return CUDA_ERROR_NOT_SUPPORTED;
  if (!world().graphs.has(graph)) return CUDA_ERROR_INVALID_HANDLE;
  std::vector<Work> works;
  if (const CUresult wrong = flatten(graph, works)) return wrong;
  *exec = world().execs.make();
  (*exec)->works = std::move(works);
  return CUDA_SUCCESS;
}

CUresult cuGraphExecDestroy(CUgraphExec exec) {
  if (!world().execs.has(exec)) return CUDA_ERROR_INVALID_HANDLE;
  world().execs.erase(exec);
  return CUDA_SUCCESS;
}

CUresult cuGraphUpload(CUgraphExec exec, CUstream stream) {
  return world().execs.has(exec) && find_stream(stream) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream handle) {
  World& w = world();
  CUstream_st* stream = find_stream(handle);
  if (!w.execs.has(exec) || !stream) return CUDA_ERROR_INVALID_HANDLE;
  if (stream->capture) {
    // A child graph. Its nodes stand in the order that was instantiated, one after the other.
    Work child;
    child.type = CU_GRAPH_NODE_TYPE_GRAPH;
    child.child = w.graphs.make();
    std::set<CUgraphNode> last;
    for (const Work& work : exec->works) last = {add_work(child.child, work, last)};
    return enqueue(handle, std::move(child));
  }
  for (const Work& work : exec->works) {
    if (const CUresult wrong = check_work(work)) return wrong;
  }
  if (stream->queue.empty()) w.clock_ns += launch_gap_ns;
  for (const Work& work : exec->works) queue_step(*stream, step_of(work));
  pump();
  return CUDA_SUCCESS;
}

}  // namespace marathon::fake
