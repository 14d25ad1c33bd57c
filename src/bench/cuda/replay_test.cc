// What a replay can find of replays before it: nothing.
#include "bench/cuda/replay.h"

#include <gmock/gmock.h>

#include "bench/cuda/cuda_fixture.h"

namespace marathon {
namespace {

using namespace cuda;
using cuda_test::in_process;
using cuda_test::Lab;
using testing::Each;
using testing::Ne;

constexpr int64_t words = 16, bytes = words * 4, sets = 3;
constexpr uint32_t answer_of[sets] = {0x11111111, 0x22222222, 0x33333333};

// Each set has 64 bytes of inputs, an output, a workspace and a canary behind it; behind them all is
// memory of nobody.
struct Stage {
  explicit Stage(const Lab& lab)
      : input(lab.allocate(sets * bytes)), writable(lab.allocate((3 * sets + 1) * bytes)) {
    for (int64_t s = 0; s < sets; ++s) {
      EXPECT_EQ(lab->cuMemsetD32Async(in(s), answer_of[s], words, lab.stream), CUDA_SUCCESS);
      memory.sets.push_back({{out(s), 3 * bytes}, {workspace(s), bytes}, {in(s), bytes}});
    }
    EXPECT_EQ(lab->cuStreamSynchronize(lab.stream), CUDA_SUCCESS);
    memory.rest = {rest(), bytes};
  }
  CUdeviceptr in(int64_t s) const { return input + static_cast<uint64_t>(s * bytes); }
  CUdeviceptr out(int64_t s) const { return writable + static_cast<uint64_t>(3 * s * bytes); }
  CUdeviceptr workspace(int64_t s) const { return out(s) + bytes; }
  CUdeviceptr rest() const { return out(sets); }

  CUdeviceptr input, writable;
  ReplayMemory memory;
};

PlanNode copy_of(uint64_t from, uint64_t to) {
  PlanNode node;
  node.kind = PlanNodeKind::copy;
  node.copy = {from, to, bytes, 1, 1, bytes, 1, bytes, 1};
  return node;
}

// A set's call: takes what stands in `kept` for its output, then leaves the right output there.
struct Keeps {
  CUdeviceptr kept;
  int64_t whose;  // the set whose answer it leaves
};

// Outputs of the last window after 20 replays that do not count.
void expect_nothing_kept(GpuCache cache,
                         const std::function<std::vector<Keeps>(const Stage&)>& cheat) {
  in_process("l2=65536", [&] {
    Lab lab;
    const Stage stage(lab);
    Plan plan;
    for (const Keeps& call : cheat(stage)) {
      const int64_t set = static_cast<int64_t>(plan.graphs.size());
      plan.graphs.push_back({{copy_of(call.kept, stage.out(set)),
                              copy_of(stage.in(call.whose), call.kept)},
                             {{0, 1, 0, 0}}});
    }
    Result<Replayer> replayer = Replayer::make(lab.gpu, {}, cuda_test::judge_cubin);
    ASSERT_TRUE(replayer) << replayer.error().what;
    ASSERT_TRUE(replayer->add(0, plan, stage.memory));
    for (int window = 0; window < 2; ++window) {
      ASSERT_TRUE(replayer->run(0, {0, 1, 2}, cache, 20, 7));
      for (int64_t s = 0; s < sets; ++s)
        EXPECT_THAT(lab.words(stage.out(s), words), Each(Ne(answer_of[s])))
            << "set " << s << ", window " << window;
    }
  });
}

class Replays : public testing::TestWithParam<GpuCache> {};
INSTANTIATE_TEST_SUITE_P(Caches, Replays,
                         testing::Values(GpuCache::cold, GpuCache::warm, GpuCache::as_it_is));

TEST_P(Replays, FindNothingInTheWorkspaceOfASetBefore) {
  expect_nothing_kept(GetParam(), [](const Stage& stage) -> std::vector<Keeps> {
    return {{stage.workspace(2), 0}, {stage.workspace(0), 1}, {stage.workspace(1), 2}};
  });
}

TEST_P(Replays, FindNothingInTheWorkspaceOfASetBehind) {
  expect_nothing_kept(GetParam(), [](const Stage& stage) -> std::vector<Keeps> {
    return {{stage.workspace(1), 0}, {stage.workspace(2), 1}, {stage.workspace(2), 2}};
  });
}

TEST_P(Replays, FindNothingInTheOutputOfASetBehind) {
  expect_nothing_kept(GetParam(), [](const Stage& stage) -> std::vector<Keeps> {
    return {{stage.out(1), 0}, {stage.out(2), 1}, {stage.workspace(0), 2}};
  });
}

// A batch in one call would be faster for each: the next set's answer, made beforehand.
TEST_P(Replays, ComputeNothingForTheNextSet) {
  expect_nothing_kept(GetParam(), [](const Stage& stage) -> std::vector<Keeps> {
    return {{stage.workspace(0), 1}, {stage.workspace(0), 2}, {stage.workspace(0), 0}};
  });
}

TEST_P(Replays, FindNothingBehindTheLastSet) {
  expect_nothing_kept(GetParam(), [](const Stage& stage) -> std::vector<Keeps> {
    return {{stage.rest(), 1}, {stage.rest(), 2}, {stage.rest(), 0}};
  });
}

// What has been timed is still there to be looked at, and so is damage beside it.
TEST_P(Replays, KeepOutputsAndCanaries) {
  in_process("l2=65536", [&] {
    Lab lab;
    const Stage stage(lab);
    Plan plan;
    for (int64_t s = 0; s < sets; ++s)
      plan.graphs.push_back({{copy_of(stage.in(s), stage.out(s)),
                              copy_of(stage.in(s), stage.workspace(s) + bytes)},
                             {}});
    Result<Replayer> replayer = Replayer::make(lab.gpu, {}, cuda_test::judge_cubin);
    ASSERT_TRUE(replayer) << replayer.error().what;
    ASSERT_TRUE(replayer->add(0, plan, stage.memory));
    ASSERT_TRUE(replayer->run(0, {0, 1, 2}, GetParam(), 3, 7));
    for (int64_t s = 0; s < sets; ++s) {
      EXPECT_THAT(lab.words(stage.out(s), words), Each(answer_of[s]));
      EXPECT_THAT(lab.words(stage.workspace(s) + bytes, words), Each(answer_of[s]));
    }
  });
}

}  // namespace
}  // namespace marathon
