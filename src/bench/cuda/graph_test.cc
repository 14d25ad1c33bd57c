// Capture, nodes, parameters and a graph that is built anew from them: the way of a plan, on the
// fake.
#include <gmock/gmock.h>

#include <cstring>

#include "bench/cuda/capture.h"
#include "bench/cuda/cuda_fixture.h"

namespace marathon {
namespace {

using namespace cuda;
using cuda_test::in_process;
using cuda_test::Lab;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t count = 16;

// out = 3 · (a + a) in two streams, with memsets beside it; `spare` gets a copy of out.
struct Problem {
  explicit Problem(const Lab& lab)
      : a(lab.allocate(256)),
        b(lab.allocate(256)),
        out(lab.allocate(256)),
        spare(lab.allocate(256)) {}

  void set(const Lab& lab, float value) const {
    uint32_t bits = 0;
    std::memcpy(&bits, &value, 4);
    for (const CUdeviceptr place : {b, out, spare})
      ASSERT_EQ(lab->cuMemsetD8Async(place, 0xff, 256, lab.stream), CUDA_SUCCESS);
    ASSERT_EQ(lab->cuMemsetD32Async(a, bits, count, lab.stream), CUDA_SUCCESS);
    ASSERT_EQ(lab->cuStreamSynchronize(lab.stream), CUDA_SUCCESS);
  }

  void run(const Lab& lab, CUstream stream, CUstream side, CUevent fork, CUevent join) const {
    ASSERT_EQ(lab->cuEventRecord(fork, stream), CUDA_SUCCESS);
    ASSERT_EQ(lab->cuStreamWaitEvent(side, fork, 0), CUDA_SUCCESS);
    ASSERT_EQ(lab->cuMemsetD8Async(b, 0, 256, side), CUDA_SUCCESS);
    ASSERT_EQ(lab.launch("add_f32_a", side, a, a, b, static_cast<uint32_t>(count)), CUDA_SUCCESS);
    ASSERT_EQ(lab->cuMemsetD32Async(out, 0, count, stream), CUDA_SUCCESS);
    ASSERT_EQ(lab->cuEventRecord(join, side), CUDA_SUCCESS);
    ASSERT_EQ(lab->cuStreamWaitEvent(stream, join, 0), CUDA_SUCCESS);
    ASSERT_EQ(lab.launch("scale_f32_a", stream, b, out, static_cast<uint32_t>(count), 3.0f),
              CUDA_SUCCESS);
    ASSERT_EQ(lab->cuMemcpyDtoDAsync(spare, out, count * 4, stream), CUDA_SUCCESS);
  }

  CUgraph capture(const Lab& lab) const {
    const CUstream side = lab.make_stream();
    EXPECT_EQ(lab->cuStreamBeginCapture(lab.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
              CUDA_SUCCESS);
    run(lab, lab.stream, side, lab.make_event(), lab.make_event());
    CUgraph graph = nullptr;
    EXPECT_EQ(lab->cuStreamEndCapture(lab.stream, &graph), CUDA_SUCCESS);
    return graph;
  }

  CUdeviceptr a, b, out, spare;
};

std::vector<CUgraphNode> nodes_of(const Lab& lab, CUgraph graph) {
  size_t size = 0;
  EXPECT_EQ(lab->cuGraphGetNodes(graph, nullptr, &size), CUDA_SUCCESS);
  std::vector<CUgraphNode> nodes(size);
  EXPECT_EQ(lab->cuGraphGetNodes(graph, nodes.data(), &size), CUDA_SUCCESS);
  return nodes;
}

CUgraphNodeType type_of(const Lab& lab, CUgraphNode node) {
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_HOST;
  EXPECT_EQ(lab->cuGraphNodeGetType(node, &type), CUDA_SUCCESS);
  return type;
}

void launch_graph(const Lab& lab, CUgraph graph) {
  CUgraphExec exec = nullptr;
  ASSERT_EQ(lab->cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_SUCCESS);
  ASSERT_EQ(lab->cuGraphUpload(exec, lab.stream), CUDA_SUCCESS);
  ASSERT_EQ(lab->cuGraphLaunch(exec, lab.stream), CUDA_SUCCESS);
  ASSERT_EQ(lab->cuStreamSynchronize(lab.stream), CUDA_SUCCESS);
  ASSERT_EQ(lab->cuGraphExecDestroy(exec), CUDA_SUCCESS);
}

// The node once more, from what the driver tells about it and nothing else.
CUgraphNode copy_node(const Lab& lab, CUgraph graph, CUgraphNode node) {
  CUgraphNode made = nullptr;
  const CUgraphNodeType type = type_of(lab, node);
  if (type == CU_GRAPH_NODE_TYPE_KERNEL) {
    CUDA_KERNEL_NODE_PARAMS params = {};
    EXPECT_EQ(lab->cuGraphKernelNodeGetParams(node, &params), CUDA_SUCCESS);
    EXPECT_EQ(lab->cuGraphAddKernelNode(&made, graph, nullptr, 0, &params), CUDA_SUCCESS);
  } else if (type == CU_GRAPH_NODE_TYPE_MEMSET) {
    CUDA_MEMSET_NODE_PARAMS params = {};
    EXPECT_EQ(lab->cuGraphMemsetNodeGetParams(node, &params), CUDA_SUCCESS);
    EXPECT_EQ(lab->cuGraphAddMemsetNode(&made, graph, nullptr, 0, &params, lab.gpu.context),
              CUDA_SUCCESS);
  } else {
    EXPECT_EQ(type, CU_GRAPH_NODE_TYPE_MEMCPY);
    CUDA_MEMCPY3D params = {};
    EXPECT_EQ(lab->cuGraphMemcpyNodeGetParams(node, &params), CUDA_SUCCESS);
    EXPECT_EQ(lab->cuGraphAddMemcpyNode(&made, graph, nullptr, 0, &params, lab.gpu.context),
              CUDA_SUCCESS);
  }
  return made;
}

TEST(Graphs, CapturedWorkRunsOnlyWhenTheGraphDoes) {
  in_process("", [] {
    Lab lab;
    const Problem problem(lab);
    problem.set(lab, 2);
    const CUgraph graph = problem.capture(lab);
    ASSERT_NE(graph, nullptr);
    EXPECT_THAT(lab.words(problem.out, count), Each(~0u)) << "nothing ran while it was captured";
    launch_graph(lab, graph);
    EXPECT_THAT(lab.floats(problem.out, count), Each(12.0f));
    EXPECT_EQ(lab->cuGraphDestroy(graph), CUDA_SUCCESS);
    EXPECT_EQ(lab->cuGraphDestroy(graph), CUDA_ERROR_INVALID_HANDLE);
  });
}

TEST(Graphs, BuiltAnewFromNodesAndEdgesHaveTheSameEffect) {
  in_process("", [] {
    Lab lab;
    const Problem problem(lab);
    const CUgraph graph = problem.capture(lab);
    const std::vector<CUgraphNode> nodes = nodes_of(lab, graph);
    ASSERT_EQ(nodes.size(), 5u);
    CUgraph anew = nullptr;
    ASSERT_EQ(lab->cuGraphCreate(&anew, 0), CUDA_SUCCESS);
    std::map<CUgraphNode, CUgraphNode> same;
    // From the end, so that only the edges can bring them into order.
    for (size_t i = nodes.size(); i-- > 0;) same[nodes[i]] = copy_node(lab, anew, nodes[i]);
    size_t edges = 0;
    ASSERT_EQ(lab->cuGraphGetEdges(graph, nullptr, nullptr, nullptr, &edges), CUDA_SUCCESS);
    std::vector<CUgraphNode> from(edges), to(edges);
    std::vector<CUgraphEdgeData> data(edges);
    ASSERT_EQ(lab->cuGraphGetEdges(graph, from.data(), to.data(), data.data(), &edges),
              CUDA_SUCCESS);
    for (size_t i = 0; i < edges; ++i)
      ASSERT_EQ(lab->cuGraphAddDependencies(anew, &same[from[i]], &same[to[i]], &data[i], 1),
                CUDA_SUCCESS);
    ASSERT_EQ(lab->cuGraphDestroy(graph), CUDA_SUCCESS);
    for (const float value : {1.0f, 5.0f}) {
      problem.set(lab, value);
      launch_graph(lab, anew);
      EXPECT_THAT(lab.floats(problem.out, count), Each(6 * value));
      EXPECT_THAT(lab.floats(problem.spare, count), Each(6 * value));
    }
  });
}

TEST(Graphs, AreReadAsPlans) {
  in_process("", [] {
    Lab lab;
    const Problem problem(lab);
    const Result<PlanGraph> plan = plan_of_graph(lab.driver(), problem.capture(lab));
    ASSERT_TRUE(plan) << plan.error().what;
    ASSERT_EQ(plan->nodes.size(), 5u);
    EXPECT_EQ(plan->nodes[0].memset.address, problem.b);
    EXPECT_EQ(plan->nodes[1].kernel.name, "add_f32_a");
    ASSERT_EQ(plan->nodes[1].kernel.parameters.size(), 4u);
    EXPECT_EQ(plan->nodes[1].kernel.parameters[3].offset, 24);
    EXPECT_EQ(plan->nodes[2].memset.element_bytes, 4);
    EXPECT_EQ(plan->nodes[3].kernel.name, "scale_f32_a");
    EXPECT_EQ(plan->nodes[3].kernel.block[0], 32);
    EXPECT_EQ(plan->nodes[3].kernel.max_dynamic_shared_bytes, 48 * 1024);
    EXPECT_EQ(plan->nodes[4].copy.to, problem.spare);
    std::set<std::pair<int64_t, int64_t>> edges;
    for (const PlanEdge& edge : plan->edges) edges.insert({edge.from, edge.to});
    EXPECT_THAT(edges,
                ElementsAre(std::pair(0, 1), std::pair(1, 3), std::pair(2, 3), std::pair(3, 4)));
  });
}

TEST(Graphs, InAGraphAreChildren) {
  in_process("", [] {
    Lab lab;
    const Problem problem(lab);
    CUgraphExec inner = nullptr;
    ASSERT_EQ(lab->cuGraphInstantiateWithFlags(&inner, problem.capture(lab), 0), CUDA_SUCCESS);
    ASSERT_EQ(lab->cuStreamBeginCapture(lab.stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
    ASSERT_EQ(lab->cuGraphLaunch(inner, lab.stream), CUDA_SUCCESS);
    ASSERT_EQ(lab->cuMemsetD32Async(problem.spare, 9, 1, lab.stream), CUDA_SUCCESS);
    CUgraph outer = nullptr;
    ASSERT_EQ(lab->cuStreamEndCapture(lab.stream, &outer), CUDA_SUCCESS);
    const std::vector<CUgraphNode> nodes = nodes_of(lab, outer);
    ASSERT_EQ(nodes.size(), 2u);
    ASSERT_EQ(type_of(lab, nodes[0]), CU_GRAPH_NODE_TYPE_GRAPH);
    CUgraph child = nullptr;
    ASSERT_EQ(lab->cuGraphChildGraphNodeGetGraph(nodes[0], &child), CUDA_SUCCESS);
    EXPECT_EQ(nodes_of(lab, child).size(), 5u);
    const Result<PlanGraph> plan = plan_of_graph(lab.driver(), outer);
    ASSERT_TRUE(plan) << plan.error().what;
    EXPECT_EQ(plan->nodes.size(), 8u) << "five, the child's two ends, the memset";
    EXPECT_TRUE(check_order(*plan));
    problem.set(lab, 1);
    launch_graph(lab, outer);
    EXPECT_THAT(lab.floats(problem.out, count), Each(6.0f));
    EXPECT_EQ(lab.words(problem.spare, 1)[0], 9u);
  });
}

TEST(Graphs, TakeTheTimeOfTheirNodes) {
  in_process("", [] {
    Lab lab;
    CUdeviceptr on_device = 0;
    uint32_t* gate = lab.make_gate(on_device);
    ASSERT_EQ(lab->cuStreamBeginCapture(lab.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
              CUDA_SUCCESS);
    for (int i = 0; i < 4; ++i) ASSERT_EQ(lab.launch("nop_a", lab.stream), CUDA_SUCCESS);
    CUgraph graph = nullptr;
    CUgraphExec exec = nullptr;
    ASSERT_EQ(lab->cuStreamEndCapture(lab.stream, &graph), CUDA_SUCCESS);
    ASSERT_EQ(lab->cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_SUCCESS);
    const CUevent begin = lab.make_event(), end = lab.make_event();
    lab->cuStreamWaitValue32(lab.stream, on_device, 1, CU_STREAM_WAIT_VALUE_EQ);
    lab->cuEventRecord(begin, lab.stream);
    ASSERT_EQ(lab->cuGraphLaunch(exec, lab.stream), CUDA_SUCCESS);
    lab->cuEventRecord(end, lab.stream);
    *gate = 1;
    ASSERT_EQ(lab->cuStreamSynchronize(lab.stream), CUDA_SUCCESS);
    EXPECT_NEAR(lab.elapsed_ns(begin, end), 40'000, 5);
  });
}

TEST(Graphs, KeepLaunchAttributes) {
  in_process("", [] {
    Lab lab;
    CUgraph graph = nullptr;
    ASSERT_EQ(lab->cuGraphCreate(&graph, 0), CUDA_SUCCESS);
    CUDA_KERNEL_NODE_PARAMS params = {};
    params.kern = reinterpret_cast<CUkernel>(lab.kernel("nop_a"));
    params.gridDimX = params.gridDimY = params.gridDimZ = 1;
    params.blockDimX = params.blockDimY = params.blockDimZ = 2;
    CUgraphNode node = nullptr;
    ASSERT_EQ(lab->cuGraphAddKernelNode(&node, graph, nullptr, 0, &params), CUDA_SUCCESS);
    CUlaunchAttributeValue value = {};
    value.clusterDim = {2, 1, 1};
    ASSERT_EQ(
        lab->cuGraphKernelNodeSetAttribute(node, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, &value),
        CUDA_SUCCESS);
    value = {};
    ASSERT_EQ(
        lab->cuGraphKernelNodeGetAttribute(node, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, &value),
        CUDA_SUCCESS);
    EXPECT_EQ(value.clusterDim.x, 2u);
    ASSERT_EQ(lab->cuGraphKernelNodeGetAttribute(node, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value),
              CUDA_SUCCESS);
    EXPECT_EQ(value.priority, 0);
    const char* name = nullptr;
    ASSERT_EQ(lab->cuKernelGetName(&name, params.kern), CUDA_SUCCESS);
    EXPECT_STREQ(name, "nop_a");
    params.blockDimX = 1000;
    EXPECT_EQ(lab->cuGraphAddKernelNode(&node, graph, nullptr, 0, &params),
              CUDA_ERROR_INVALID_VALUE)
        << "4000 threads a block";
  });
}

TEST(Graphs, WithACycleAreNone) {
  in_process("", [] {
    Lab lab;
    CUgraph graph = nullptr;
    CUgraphNode first = nullptr, second = nullptr;
    ASSERT_EQ(lab->cuGraphCreate(&graph, 0), CUDA_SUCCESS);
    ASSERT_EQ(lab->cuGraphAddEmptyNode(&first, graph, nullptr, 0), CUDA_SUCCESS);
    ASSERT_EQ(lab->cuGraphAddEmptyNode(&second, graph, &first, 1), CUDA_SUCCESS);
    EXPECT_EQ(lab->cuGraphAddDependencies(graph, &first, &second, nullptr, 1),
              CUDA_ERROR_INVALID_VALUE)
        << "there is one already";
    ASSERT_EQ(lab->cuGraphAddDependencies(graph, &second, &first, nullptr, 1), CUDA_SUCCESS);
    CUgraphExec exec = nullptr;
    EXPECT_EQ(lab->cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_ERROR_INVALID_VALUE);
  });
}

// ---- what a capture refuses

// Captures `body` and gives what the capture's end says.
CUresult end_of_capture(const Lab& lab, const std::function<void()>& body) {
  EXPECT_EQ(lab->cuStreamBeginCapture(lab.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
            CUDA_SUCCESS);
  body();
  CUgraph graph = nullptr;
  const CUresult result = lab->cuStreamEndCapture(lab.stream, &graph);
  EXPECT_EQ(graph == nullptr, result != CUDA_SUCCESS);
  return result;
}

TEST(Capture, BreaksWhenItsThreadWaitsOrAllocates) {
  in_process("", [] {
    Lab lab;
    const CUevent event = lab.make_event();
    CUdeviceptr address = lab.allocate(64);
    uint32_t word = 0;
    const std::function<CUresult()> calls[] = {
        [&] { return lab->cuStreamSynchronize(lab.stream); },
        [&] { return lab->cuStreamQuery(lab.stream); },
        [&] { return lab->cuCtxSynchronize(); },
        [&] { return lab->cuMemcpyDtoH(&word, address, 4); },
        [&] { return lab->cuMemFree(address); },
        [&] { return lab->cuMemAlloc(&address, 64); },
    };
    for (const auto& call : calls) {
      EXPECT_EQ(end_of_capture(lab,
                               [&] {
                                 EXPECT_EQ(call(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
                                 EXPECT_EQ(lab.launch("nop_a", lab.stream),
                                           CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
                               }),
                CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    }
    EXPECT_EQ(end_of_capture(lab,
                             [&] {
                               lab->cuEventRecord(event, lab.stream);
                               EXPECT_EQ(lab->cuEventQuery(event), CUDA_ERROR_CAPTURED_EVENT);
                             }),
              CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    // The stream is as good as before.
    EXPECT_EQ(end_of_capture(lab, [&] { lab.launch("nop_a", lab.stream); }), CUDA_SUCCESS);
    EXPECT_EQ(lab->cuStreamSynchronize(lab.stream), CUDA_SUCCESS);
  });
}

TEST(Capture, WantsItsStreamsJoinedAndNothingFromOutside) {
  in_process("", [] {
    Lab lab;
    const CUevent event = lab.make_event(), outside = lab.make_event();
    const CUstream side = lab.make_stream();
    ASSERT_EQ(lab->cuEventRecord(outside, side), CUDA_SUCCESS);
    EXPECT_EQ(end_of_capture(lab,
                             [&] {
                               lab->cuEventRecord(event, lab.stream);
                               lab->cuStreamWaitEvent(side, event, 0);
                               lab.launch("nop_a", side);
                             }),
              CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    EXPECT_EQ(end_of_capture(lab,
                             [&] {
                               EXPECT_EQ(lab->cuStreamWaitEvent(lab.stream, outside, 0),
                                         CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
                             }),
              CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    CUgraph graph = nullptr;
    EXPECT_EQ(lab->cuStreamEndCapture(lab.stream, &graph), CUDA_ERROR_ILLEGAL_STATE);
    EXPECT_EQ(lab->cuStreamBeginCapture(nullptr, CU_STREAM_CAPTURE_MODE_GLOBAL),
              CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  });
}

TEST(Capture, OfAWaitForAValueIsRefusedByThePlan) {
  in_process("", [] {
    Lab lab;
    CUdeviceptr on_device = 0;
    lab.make_gate(on_device);
    ASSERT_EQ(lab->cuStreamBeginCapture(lab.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
              CUDA_SUCCESS);
    ASSERT_EQ(lab->cuStreamWaitValue32(lab.stream, on_device, 1, CU_STREAM_WAIT_VALUE_EQ),
              CUDA_SUCCESS);
    CUgraph graph = nullptr;
    ASSERT_EQ(lab->cuStreamEndCapture(lab.stream, &graph), CUDA_SUCCESS);
    const Result<PlanGraph> plan = plan_of_graph(lab.driver(), graph);
    ASSERT_FALSE(plan);
    EXPECT_EQ(plan.error().fault, Fault::invalid);
    EXPECT_THAT(plan.error().what, HasSubstr("memory operations of a stream"));
  });
}

}  // namespace
}  // namespace marathon
