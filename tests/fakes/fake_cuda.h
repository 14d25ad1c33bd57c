// What the files of the fake CUDA driver share. libfakecuda.so runs on the host what a GPU would
// run, in order and with a clock that only the work moves, so that tests of timing give the same
// figures everywhere. Not a model of speed, and no race of a real GPU shows here.
//
// MARATHON_FAKE_CUDA, words with commas between them:
//   no_device            cuInit finds no GPU
//   old_driver           a driver of CUDA 12.2
//   cc=8.0               compute capability (9.0 otherwise)
//   oom_after=N          allocations of device memory after the first N fail
//   illegal_access_at=N  the Nth kernel that runs reads where nothing is
//   hang_at=N            the Nth kernel that runs never ends
//   ecc_at=N             memory breaks under the Nth kernel
//   slow=F               kernels take F times as long
//   l2=N                 bytes of L2 (60 MB otherwise)
//   shared               somebody else has the GPU from time to time
//   only=WORD            all of this only in processes with that word on their command line
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "bench/cuda/driver.h"
#include "fake_kernels.h"

namespace marathon::fake {

using namespace cuda;

inline constexpr int64_t total_memory_bytes = 4LL << 30, granularity_bytes = 2LL << 20;
inline constexpr int64_t multiprocessors = 132, clock_khz = 1'980'000;
// What a launch costs when the GPU has nothing to do meanwhile: this is what a blocked stream
// hides.
inline constexpr int64_t launch_gap_ns = 1500;
// A copy or memset: this, and a nanosecond for so many bytes.
inline constexpr int64_t copy_base_ns = 1000, copy_bytes_a_ns = 4000;
inline constexpr int default_dynamic_shared = 48 * 1024, most_dynamic_shared = 227 * 1024;

// Every function of the driver, defined in one of the fake's files.
#define MARATHON_FAKE_DECLARE(name, arguments) CUresult name arguments;
MARATHON_CUDA_FUNCTIONS(MARATHON_FAKE_DECLARE)
#undef MARATHON_FAKE_DECLARE

struct Options {
  bool no_device = false, old_driver = false, shared = false;
  int major = 9, minor = 0;
  int64_t oom_after = -1, illegal_access_at = -1, hang_at = -1, ecc_at = -1, l2_bytes = 60'000'000;
  double slow = 1;
  std::string only;
  std::string wrong;  // what of the text is not understood
};
Options read_options(const char* text);

struct KernelCall {
  CUfunction function = nullptr;
  unsigned grid[3] = {1, 1, 1}, block[3] = {1, 1, 1}, shared = 0;
  std::vector<std::string> parameters;
  std::map<int, CUlaunchAttributeValue> attributes;
};

// One piece of work of a stream, and one node of a graph.
struct Work {
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  KernelCall kernel;
  CUDA_MEMSET_NODE_PARAMS memset = {};
  CUDA_MEMCPY3D copy = {};
  std::shared_ptr<std::string> staged;  // pageable memory is read when the copy is asked for
  CUgraph child = nullptr;
};

// A place in a stream's order: an event of it has happened when `done`.
struct Mark {
  bool done = false;
  int64_t time_ns = 0;
};

// False: not yet, look again later.
using Step = std::function<bool()>;
struct Queued {
  int64_t number =
      0;  // over all streams: the default stream and the blocking ones take turns by it
  Step step;
};

struct Capture {
  CUgraph graph = nullptr;
  CUstream origin = nullptr;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  std::thread::id thread;
  bool broken = false, ended = false;
};

// Memory that kernels and copies may touch.
struct Range {
  int64_t bytes = 0;
  int access = 0;  // CU_MEM_ACCESS_FLAGS_PROT_*; 0: mapped, and nobody may touch it
  enum Kind { mapping, allocation, host } kind = allocation;
};

struct Physical {
  int fd = -1;
  int64_t bytes = 0;
  bool may_share = false, is_ours = true;  // ours: counts as memory of this process
  int64_t uses = 1;                        // the handle, and each mapping
  bool released = false;
};

template <class T>
class Pool {
 public:
  T* make() {
    std::unique_ptr<T> made = std::make_unique<T>();
    T* raw = made.get();
    all_[raw] = std::move(made);
    return raw;
  }
  bool has(T* one) const { return all_.contains(one); }
  void erase(T* one) { all_.erase(one); }

 private:
  std::unordered_map<T*, std::unique_ptr<T>> all_;
};

}  // namespace marathon::fake

namespace marathon::cuda {

struct CUctx_st {
  int64_t references = 0;
};
struct CUmod_st {
  std::vector<CUfunction> functions;
};
struct CUfunc_st {
  std::string name;
  CUmodule module = nullptr;
  int64_t cost_ns = 1000;
  std::vector<size_t> offsets, sizes;
  int max_shared = fake::most_dynamic_shared;
  int dynamic_shared = fake::default_dynamic_shared, carveout = -1, non_portable_cluster = 0;
  fake::Effect effect = nullptr;
};
struct CUstream_st {
  unsigned flags = 0;
  bool destroyed = false;  // and forgotten once its work is done
  std::deque<fake::Queued> queue;
  std::shared_ptr<fake::Capture> capture;
  std::set<CUgraphNode> frontier;  // what the next captured node comes after
};
struct CUevent_st {
  std::shared_ptr<fake::Mark> mark;  // null: never recorded
  std::shared_ptr<fake::Capture> capture;
  std::set<CUgraphNode> frontier;
};
struct CUgraphNode_st {
  fake::Work work;
  std::vector<void*> pointers;  // to work.kernel.parameters, for those who ask
};
struct CUgraph_st {
  struct Edge {
    CUgraphNode from, to;
    CUgraphEdgeData data;
  };
  std::vector<CUgraphNode> nodes;
  std::vector<Edge> edges;
};
struct CUgraphExec_st {
  std::vector<fake::Work> works;  // in an order that the edges allow
};

}  // namespace marathon::cuda

namespace marathon::fake {

struct World {
  // Held in every call but while one waits.
  std::mutex mutex;
  Options options;
  bool initialised = false;
  int process = 0;  // a fork's child has no driver
  CUresult lost = CUDA_SUCCESS;
  CUctx_st context;

  int64_t clock_ns = 0, queued = 0, kernels_run = 0, allocations = 0, used_bytes = 0;
  std::map<CUdeviceptr, Range> ranges;
  std::map<CUdeviceptr, int64_t> reservations;
  std::map<CUdeviceptr, CUmemGenericAllocationHandle> mappings;
  std::map<CUmemGenericAllocationHandle, Physical> physical;
  CUmemGenericAllocationHandle next_physical = 1;

  CUstream_st default_stream;
  std::vector<std::unique_ptr<CUstream_st>> streams;
  Pool<CUevent_st> events;
  Pool<CUmod_st> modules;
  Pool<CUfunc_st> functions;
  Pool<CUgraph_st> graphs;
  Pool<CUgraphNode_st> nodes;
  Pool<CUgraphExec_st> execs;
};
World& world();

// ---- fake_memory.cc
// The bytes of device memory, or null where a GPU would fault.
char* reach(CUdeviceptr address, int64_t bytes, bool to_write);
bool is_pinned(const void* host, int64_t bytes);

// ---- fake_stream.cc
// Null: no such stream.
CUstream_st* find_stream(CUstream stream);
// Captures the work or queues it; runs it at once where nothing is before it.
CUresult enqueue(CUstream stream, Work work);
void queue_step(CUstream_st& stream, Step step);
// Whatever can run, runs.
void pump();
// Gives the lock away while it looks again and again. What was lost on the way, or success.
CUresult wait_until(const std::function<bool()>& done);
// The thread may not call this while it captures: the capture breaks.
CUresult refuse_in_capture();
CUresult check_work(const Work& work);
Step step_of(Work work);

// ---- fake_graph.cc
CUgraphNode add_work(CUgraph graph, Work work, const std::set<CUgraphNode>& after);
CUgraph clone_graph(CUgraph graph);
void destroy_graph(CUgraph graph);

// ---- fake_module.cc
// Checks the launch's sizes, which `call` has already, and takes the parameters' bytes.
CUresult make_call(CUfunction function, void** parameters, void** extra, KernelCall& call);
bool has_function(CUfunction function);
// kernel_never_ends, or the kernel's result.
CUresult run_kernel(const KernelCall& call);

}  // namespace marathon::fake
