#include "bench/cuda/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <utility>

#include "base/clock.h"

namespace marathon {

using namespace cuda;

Replayer::Replayer(Replayer&& other) noexcept
    : gpu_(other.gpu_),
      modules_(std::move(other.modules_)),
      judge_(std::move(other.judge_)),
      functions_(std::move(other.functions_)),
      shapes_(std::move(other.shapes_)),
      stream_(std::exchange(other.stream_, nullptr)),
      begin_(std::exchange(other.begin_, nullptr)),
      end_(std::exchange(other.end_, nullptr)),
      scratch_(std::exchange(other.scratch_, 0)),
      gate_(std::exchange(other.gate_, nullptr)),
      gate_on_device_(other.gate_on_device_),
      opened_(other.opened_) {
  other.shapes_.clear();
}

Replayer::~Replayer() {
  const Driver& driver = *gpu_->driver;
  while (!shapes_.empty()) forget(shapes_.begin()->first);
  if (stream_) driver.cuStreamDestroy(stream_);
  if (begin_) driver.cuEventDestroy(begin_);
  if (end_) driver.cuEventDestroy(end_);
  if (scratch_) driver.cuMemFree(scratch_);
  if (gate_) driver.cuMemFreeHost(gate_);
}

Result<Replayer> Replayer::make(const Gpu& gpu, const std::map<std::string, std::string>& cubins,
                                const std::string& judge_image) {
  Replayer replayer(gpu);
  for (const auto& [hash, cubin] : cubins)
    replayer.modules_.emplace(hash, TRY(Module::load(gpu, cubin)));
  TRY(replayer.prepare(judge_image));
  return replayer;
}

Status Replayer::prepare(const std::string& judge_image) {
  const Driver& driver = *gpu_->driver;
  judge_.push_back(TRY(JudgeKernels::load(*gpu_, judge_image)));
  TRY(driver.ok(driver.cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING), "make a stream"));
  TRY(driver.ok(driver.cuEventCreate(&begin_, CU_EVENT_DEFAULT), "make an event"));
  TRY(driver.ok(driver.cuEventCreate(&end_, CU_EVENT_DEFAULT), "make an event"));
  const size_t bytes = static_cast<size_t>(4 * gpu_->l2_bytes + 64);
  TRY(driver.ok(driver.cuMemAlloc(&scratch_, bytes), "take memory to flush L2 with"));
  TRY(driver.ok(driver.cuMemsetD8Async(scratch_, 0, bytes, stream_), "clear it"));
  void* gate = nullptr;
  TRY(driver.ok(driver.cuMemHostAlloc(&gate, 64, CU_MEMHOSTALLOC_DEVICEMAP), "pin memory"));
  gate_ = static_cast<uint32_t*>(gate);
  *gate_ = 0;
  return driver.ok(driver.cuMemHostGetDevicePointer(&gate_on_device_, gate, 0), "map pinned memory");
}

Result<CUfunction> Replayer::find(const PlanKernel& kernel) {
  const std::string key = kernel.image + " " + kernel.name;
  const auto known = functions_.find(key);
  if (known != functions_.end()) return known->second;
  for (const auto& [hash, module] : modules_) {
    if (!kernel.image.empty() && kernel.image != hash) continue;
    Result<CUfunction> function = module.kernel(kernel.name);
    if (!function && function.error().fault == Fault::not_found) continue;
    if (function) functions_[key] = *function;
    return function;
  }
  return fail(Fault::invalid,
              fmt::format("kernel {} is none that this build compiled: a kernel of a library, or "
                          "one made at run time",
                          kernel.name));
}

Result<CUgraphNode> Replayer::add_kernel(CUgraph graph, const PlanKernel& kernel) {
  const Driver& driver = *gpu_->driver;
  const CUfunction function = TRY(find(kernel));
  const auto set = [&](CUfunction_attribute attribute, int64_t value) {
    return driver.ok(driver.cuFuncSetAttribute(function, attribute, static_cast<int>(value)),
                     "set an attribute of kernel " + kernel.name);
  };
  if (kernel.max_dynamic_shared_bytes > 0)
    TRY(set(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, kernel.max_dynamic_shared_bytes));
  if (kernel.carveout >= 0)
    TRY(set(CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, kernel.carveout));
  if (kernel.non_portable_cluster) TRY(set(CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1));

  // What the kernel itself says about its parameters decides; the plan only gives their bytes.
  std::vector<void*> pointers;
  for (size_t i = 0;; ++i) {
    size_t offset = 0, size = 0;
    if (driver.cuFuncGetParamInfo(function, i, &offset, &size) != 0) break;
    if (i >= kernel.parameters.size() || kernel.parameters[i].bytes.size() != size)
      return fail(Fault::invalid, fmt::format("kernel {} takes other parameters than the plan gives "
                                              "it", kernel.name));
    pointers.push_back(const_cast<char*>(kernel.parameters[i].bytes.data()));
  }
  if (pointers.size() != kernel.parameters.size())
    return fail(Fault::invalid, "kernel " + kernel.name + " takes fewer parameters than planned");
  CUDA_KERNEL_NODE_PARAMS params = {};
  params.func = function;
  params.gridDimX = static_cast<unsigned>(kernel.grid[0]);
  params.gridDimY = static_cast<unsigned>(kernel.grid[1]);
  params.gridDimZ = static_cast<unsigned>(kernel.grid[2]);
  params.blockDimX = static_cast<unsigned>(kernel.block[0]);
  params.blockDimY = static_cast<unsigned>(kernel.block[1]);
  params.blockDimZ = static_cast<unsigned>(kernel.block[2]);
  params.sharedMemBytes = static_cast<unsigned>(kernel.dynamic_shared_bytes);
  params.kernelParams = pointers.data();
  CUgraphNode node = nullptr;
  TRY(driver.ok(driver.cuGraphAddKernelNode(&node, graph, nullptr, 0, &params),
                "put kernel " + kernel.name + " into a graph"));
  CUlaunchAttributeValue value;
  const auto attach = [&](CUlaunchAttributeID id) {
    return driver.ok(driver.cuGraphKernelNodeSetAttribute(node, id, &value),
                     "set a launch attribute of kernel " + kernel.name);
  };
  std::memset(&value, 0, sizeof value);
  if (kernel.cluster[0] > 0) {
    value.clusterDim.x = static_cast<unsigned>(kernel.cluster[0]);
    value.clusterDim.y = static_cast<unsigned>(std::max<int64_t>(kernel.cluster[1], 1));
    value.clusterDim.z = static_cast<unsigned>(std::max<int64_t>(kernel.cluster[2], 1));
    TRY(attach(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION));
  }
  std::memset(&value, 0, sizeof value);
  if (kernel.cooperative) {
    value.cooperative = 1;
    TRY(attach(CU_LAUNCH_ATTRIBUTE_COOPERATIVE));
  }
  std::memset(&value, 0, sizeof value);
  if (kernel.has_priority) {
    value.priority = static_cast<int>(kernel.priority);
    TRY(attach(CU_LAUNCH_ATTRIBUTE_PRIORITY));
  }
  return node;
}

Result<CUgraphNode> Replayer::add_node(CUgraph graph, const PlanNode& node) {
  const Driver& driver = *gpu_->driver;
  CUgraphNode made = nullptr;
  switch (node.kind) {
    case PlanNodeKind::kernel:
      return add_kernel(graph, node.kernel);
    case PlanNodeKind::memset: {
      CUDA_MEMSET_NODE_PARAMS params = {};
      params.dst = node.memset.address;
      params.pitch = static_cast<size_t>(node.memset.pitch);
      params.value = node.memset.value;
      params.elementSize = static_cast<unsigned>(node.memset.element_bytes);
      params.width = static_cast<size_t>(node.memset.width);
      params.height = static_cast<size_t>(node.memset.height);
      TRY(driver.ok(
          driver.cuGraphAddMemsetNode(&made, graph, nullptr, 0, &params, gpu_->context),
          "put a memset into a graph"));
      return made;
    }
    case PlanNodeKind::copy: {
      CUDA_MEMCPY3D params = {};
      params.srcMemoryType = params.dstMemoryType = CU_MEMORYTYPE_DEVICE;
      params.srcDevice = node.copy.from;
      params.dstDevice = node.copy.to;
      params.srcPitch = static_cast<size_t>(node.copy.from_pitch);
      params.srcHeight = static_cast<size_t>(node.copy.from_height);
      params.dstPitch = static_cast<size_t>(node.copy.to_pitch);
      params.dstHeight = static_cast<size_t>(node.copy.to_height);
      params.WidthInBytes = static_cast<size_t>(node.copy.width_bytes);
      params.Height = static_cast<size_t>(node.copy.height);
      params.Depth = static_cast<size_t>(node.copy.depth);
      TRY(driver.ok(
          driver.cuGraphAddMemcpyNode(&made, graph, nullptr, 0, &params, gpu_->context),
          "put a copy into a graph"));
      return made;
    }
    case PlanNodeKind::empty:
      TRY(driver.ok(driver.cuGraphAddEmptyNode(&made, graph, nullptr, 0),
                    "put an empty node into a graph"));
      return made;
  }
  return fail(Fault::invalid, "an unknown kind of node");
}

Result<CUgraphExec> Replayer::build(const PlanGraph& plan) {
  const Driver& driver = *gpu_->driver;
  CUgraph graph = nullptr;
  TRY(driver.ok(driver.cuGraphCreate(&graph, 0), "make a graph"));
  const auto destroy = [&](CUgraph* made) { driver.cuGraphDestroy(*made); };
  const std::unique_ptr<CUgraph, decltype(destroy)> guard(&graph, destroy);
  std::vector<CUgraphNode> nodes;
  for (const PlanNode& node : plan.nodes) nodes.push_back(TRY(add_node(graph, node)));
  for (const PlanEdge& edge : plan.edges) {
    CUgraphEdgeData data = {};
    data.from_port = static_cast<unsigned char>(edge.from_port);
    data.type = static_cast<unsigned char>(edge.type);
    TRY(driver.ok(driver.cuGraphAddDependencies(graph, &nodes[static_cast<size_t>(edge.from)],
                                                &nodes[static_cast<size_t>(edge.to)], &data, 1),
                  "put an edge into a graph"));
  }
  return instantiate(graph);
}

Result<CUgraphExec> Replayer::instantiate(CUgraph graph) {
  const Driver& driver = *gpu_->driver;
  CUgraphExec ready = nullptr;
  TRY(driver.ok(driver.cuGraphInstantiateWithFlags(&ready, graph, 0), "instantiate a graph"));
  if (const Status up = driver.ok(driver.cuGraphUpload(ready, stream_), "upload a graph"); !up) {
    driver.cuGraphExecDestroy(ready);
    return tl::unexpected(up.error());
  }
  return ready;
}

Status Replayer::add(int64_t shape, const Plan& plan, ReplayMemory memory) {
  if (memory.sets.size() != plan.graphs.size())
    return fail(Fault::invalid, "the plan has another number of buffer sets than the judge");
  forget(shape);
  Ready& ready = shapes_[shape];
  ready.memory = std::move(memory);
  for (const PlanGraph& graph : plan.graphs) ready.graphs.push_back(TRY(build(graph)));
  return gpu_->driver->ok(gpu_->driver->cuStreamSynchronize(stream_), "upload the graphs");
}

Status Replayer::add_captured(int64_t shape, const std::vector<CUgraph>& graphs,
                              ReplayMemory memory) {
  if (memory.sets.size() != graphs.size())
    return fail(Fault::invalid, "another number of graphs than of buffer sets");
  forget(shape);
  Ready& ready = shapes_[shape];
  ready.memory = std::move(memory);
  for (CUgraph graph : graphs) ready.graphs.push_back(TRY(instantiate(graph)));
  return gpu_->driver->ok(gpu_->driver->cuStreamSynchronize(stream_), "upload the graphs");
}

void Replayer::forget(int64_t shape) {
  const auto found = shapes_.find(shape);
  if (found == shapes_.end()) return;
  for (CUgraphExec graph : found->second.graphs) gpu_->driver->cuGraphExecDestroy(graph);
  shapes_.erase(found);
}

Result<Replayer::Ready*> Replayer::ready(int64_t shape, int64_t set) {
  const auto found = shapes_.find(shape);
  if (found == shapes_.end() || set < 0 ||
      set >= static_cast<int64_t>(found->second.graphs.size()))
    return fail(Fault::invalid, fmt::format("no plan for shape {} and set {}", shape, set));
  return &found->second;
}

Status Replayer::flush() {
  const Driver& driver = *gpu_->driver;
  const int64_t half = 2 * gpu_->l2_bytes / 16 * 16;
  TRY(driver.ok(driver.cuMemsetD32Async(scratch_, 0, static_cast<size_t>(half / 4), stream_),
                "write over L2"));
  // Clean lines last: dirty ones would be written back inside of the window.
  return read({scratch_ + static_cast<uint64_t>(half), half});
}

Status Replayer::read(const AddressRange& range) {
  const uint64_t sink = scratch_ + static_cast<uint64_t>(4 * gpu_->l2_bytes / 16 * 16);
  return judge_[0].read(range.address, range.bytes, sink, stream_);
}

Status Replayer::poison(const AddressRange& range, uint64_t seed) {
  return judge_[0].poison(range.address, 0, range.bytes / 8, seed, stream_);
}

Status Replayer::wipe(const ReplayMemory& memory, const std::set<int64_t>& kept, uint64_t seed) {
  TRY(poison(memory.rest, ~seed));
  for (size_t s = 0; s < memory.sets.size(); ++s) {
    const auto& [own, workspace, inputs] = memory.sets[s];
    if (!kept.contains(static_cast<int64_t>(s))) {
      TRY(poison(own, seed));
      continue;
    }
    // The same bits as before: what stands round the workspace may not change.
    const int64_t begin = static_cast<int64_t>(workspace.address - own.address) / 8;
    TRY(judge_[0].poison(own.address, begin, begin + workspace.bytes / 8, seed, stream_));
  }
  return {};
}

Result<double> Replayer::time_one(CUgraphExec graph) {
  const Driver& driver = *gpu_->driver;
  TRY(driver.ok(driver.cuStreamSynchronize(stream_), "wait for the flush"));
  TRY(driver.ok(driver.cuCtxResetPersistingL2Cache(), "reset persisting lines of L2"));
  ++opened_;
  TRY(driver.ok(driver.cuStreamWaitValue32(stream_, gate_on_device_, opened_,
                                           CU_STREAM_WAIT_VALUE_EQ),
                "block the stream"));
  TRY(driver.ok(driver.cuEventRecord(begin_, stream_), "record an event"));
  TRY(driver.ok(driver.cuGraphLaunch(graph, stream_), "replay"));
  TRY(driver.ok(driver.cuEventRecord(end_, stream_), "record an event"));
  std::atomic_ref<uint32_t>(*gate_).store(opened_, std::memory_order_release);
  TRY(driver.ok(driver.cuStreamSynchronize(stream_), "wait for the replay"));
  float ms = 0;
  TRY(driver.ok(driver.cuEventElapsedTime(&ms, begin_, end_), "read the events"));
  return 1e6 * static_cast<double>(ms);
}

Result<ReplayTimes> Replayer::run(int64_t shape, const std::vector<int64_t>& sets, GpuCache cache,
                                  int64_t discard, uint64_t seed) {
  const Driver& driver = *gpu_->driver;
  ReplayTimes times;
  const int64_t start_ns = monotonic_ns();
  for (int64_t i = 0; i < discard && !sets.empty(); ++i) {
    const int64_t set = sets[static_cast<size_t>(i) % sets.size()];
    const Ready* found = TRY(ready(shape, set));
    TRY(poison(found->memory.sets[static_cast<size_t>(set)].own, seed ^ static_cast<uint64_t>(i)));
    TRY(driver.ok(driver.cuGraphLaunch(found->graphs[static_cast<size_t>(set)], stream_), "replay"));
  }
  for (size_t i = 0; i < sets.size(); ++i) {
    const int64_t set = sets[i];
    const Ready* found = TRY(ready(shape, set));
    // What any replay left anywhere is overwritten: nothing is remembered, and nothing is computed
    // for a set whose turn has not come.
    std::set<int64_t> kept(sets.begin(), sets.begin() + static_cast<int64_t>(i));
    for (size_t later = i; later < sets.size(); ++later) kept.erase(sets[later]);
    TRY(wipe(found->memory, kept, seed));
    if (cache != GpuCache::as_it_is) TRY(flush());
    // Only the judge runs between the wipe and the clock: a call of the candidate on these inputs
    // could leave their answer.
    if (cache == GpuCache::warm) TRY(read(found->memory.sets[static_cast<size_t>(set)].inputs));
    times.event_ns.push_back(TRY(time_one(found->graphs[static_cast<size_t>(set)])));
  }
  times.wall_ns = static_cast<double>(monotonic_ns() - start_ns);
  return times;
}

Status Replayer::once(int64_t shape, int64_t set) {
  const Driver& driver = *gpu_->driver;
  const Ready* found = TRY(ready(shape, set));
  TRY(driver.ok(driver.cuProfilerStart(), "tell a profiler to begin"));
  TRY(driver.ok(driver.cuGraphLaunch(found->graphs[static_cast<size_t>(set)], stream_), "replay"));
  TRY(driver.ok(driver.cuStreamSynchronize(stream_), "wait for the replay"));
  return driver.ok(driver.cuProfilerStop(), "tell a profiler to end");
}

Result<double> Replayer::batch(int64_t shape, int64_t count, bool with_kernel) {
  const Driver& driver = *gpu_->driver;
  const Ready* found = TRY(ready(shape, 0));
  TRY(driver.ok(driver.cuStreamSynchronize(stream_), "wait"));
  const int64_t start_ns = monotonic_ns();
  for (int64_t i = 0; i < count; ++i) {
    TRY(flush());
    const size_t set = static_cast<size_t>(i) % found->graphs.size();
    if (with_kernel)
      TRY(driver.ok(driver.cuGraphLaunch(found->graphs[set], stream_), "replay"));
  }
  TRY(driver.ok(driver.cuStreamSynchronize(stream_), "wait for the batch"));
  return static_cast<double>(monotonic_ns() - start_ns);
}

}  // namespace marathon
