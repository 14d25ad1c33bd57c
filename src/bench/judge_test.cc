// Requests, locks, buffers, threads, and the program itself.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "base/process.h"
#include "bench/bench_fixture.h"
#include "bench/buffers.h"
#include "bench/core_lock.h"
#include "bench/decide.h"
#include "bench/parallel.h"
#include "bench/peaks.h"

namespace marathon {
namespace {

// ---- requests

TEST(Request, TellsWhatIsMissing) {
  const auto error_of = [](const Json& json) {
    const Result<BenchRequest> request = bench_request_from(json);
    return request ? std::string() : request.error().what;
  };
  EXPECT_NE(error_of(Json::array()).find("JSON object"), std::string::npos);
  EXPECT_NE(error_of({{"mode", "dance"}}).find("want evaluate"), std::string::npos);
  EXPECT_NE(error_of({{"mode", "evaluate"}}).find("task_folder"), std::string::npos);
  EXPECT_NE(error_of({{"mode", "evaluate"}, {"core", 5000}}).find("core"), std::string::npos);
  EXPECT_EQ(error_of({{"mode", "peaks"}}), "");
}

TEST(Request, OneBandwidthIsThatOfMemory) {
  const Peaks peaks = peaks_from({{"gflops", 5}, {"gbytes_s", 7}});
  EXPECT_EQ(peaks.memory_gbytes_s, 7);
  EXPECT_EQ(peaks.l1_gbytes_s, 0);
  EXPECT_EQ(bandwidth_for(peaks, 1), 7);
  EXPECT_EQ(to_json(peaks_from(to_json(peaks))), to_json(peaks));
}

// ---- decisions

TEST(Decide, TheWholeIntervalMustClearTheNoise) {
  EXPECT_EQ(kind_of_gain({1.05, 1.02, 1.08}, 0.01), VerdictKind::faster);
  EXPECT_EQ(kind_of_gain({1.05, 1.009, 1.08}, 0.01), VerdictKind::same);
  EXPECT_EQ(kind_of_gain({0.9, 0.8, 0.985}, 0.01), VerdictKind::slower);
  EXPECT_EQ(kind_of_gain({0.9, 0.8, 0.995}, 0.01), VerdictKind::same);
  // No samples: no claim.
  EXPECT_EQ(kind_of_gain({NAN, NAN, NAN}, 0.01), VerdictKind::same);
}

TEST(Decide, HiddenShapesKeepTheirSpeed) {
  EXPECT_TRUE(keeps_its_speed(1.7, 2));
  EXPECT_FALSE(keeps_its_speed(1.69, 2));
  EXPECT_FALSE(keeps_its_speed(NAN, 2));
  EXPECT_EQ(kept_in_words(1, 2),
            "on the hidden shapes that are timed too it has 1.000 times the speed of the baseline, "
            "50 % of the 2.000 times on the listed ones: it must keep 85 %; make it fast at all "
            "shapes, not at those that are listed");
  EXPECT_EQ(kept_in_words(2, 2).find("must"), std::string::npos);
}

TEST(Decide, AFailureAtAHiddenShapeDoesNotNameIt) {
  Shape shape;
  shape.name = "odd";
  EXPECT_EQ(name_in_words(shape), "shape odd");
  shape.set = ShapeSet::hidden;
  Measurement m;
  m.failed_at = name_in_words(shape);
  m.failure = ShapeFailure{VerdictKind::wrong, "why"};
  EXPECT_EQ(judge_failures(m).reason, "a hidden shape, in a timed window: why");
}

TEST(Decide, ClocksAndSlope) {
  Measurement quiet;
  quiet.counts[0] = {20, 0, 10};
  quiet.slope = {1.0, 1.1, 5.0};
  EXPECT_FALSE(judge_failures(quiet).kind);
  Measurement threads = quiet;
  threads.counts[0].overworked = 11;
  EXPECT_EQ(judge_failures(threads).kind, VerdictKind::suspicious);
  Measurement untimed = quiet;
  untimed.slope = {1.9, 1.95, 1.0};
  EXPECT_EQ(judge_failures(untimed).kind, VerdictKind::suspicious);
}

// ---- buffers

ShapeSizes two_outputs() { return {{1000, 333, 77}, {false, true, true}, 5000}; }

TEST(Buffers, LayoutsAreAlignedDisjointAndDifferent) {
  Random random(3);
  const ShapeSizes sizes = two_outputs();
  std::set<int64_t> places;
  for (int round = 0; round < 50; ++round) {
    const Layout layout = draw_layout(sizes, 3, random);
    EXPECT_LE(layout.input_end, input_arena_bytes(sizes, 3));
    EXPECT_LE(layout.output_end, output_arena_bytes(sizes, 3));
    int64_t end = 0;
    for (size_t set = 0; set < 3; ++set) {
      for (const size_t tensor : {1, 2}) {
        EXPECT_EQ(layout.tensors[set][tensor] % 64, 0);
        EXPECT_GE(layout.tensors[set][tensor], end + 256);
        end = layout.tensors[set][tensor] + sizes.tensor_bytes[tensor];
      }
      EXPECT_EQ(layout.workspaces[set] % 4096, 0);
      EXPECT_GE(layout.workspaces[set], end + 256);
      end = layout.workspaces[set] + sizes.workspace_bytes;
    }
    places.insert(layout.tensors[0][1]);
  }
  EXPECT_GT(places.size(), 10u);
}

TEST(Buffers, EveryByteOutsideOfTheBuffersIsWatched) {
  Random random(4);
  const ShapeSizes sizes = two_outputs();
  const Layout layout = draw_layout(sizes, 2, random);
  const Result<Arena> arena = Arena::make("test", output_arena_bytes(sizes, 2), false);
  ASSERT_TRUE(arena);
  const std::vector<std::string> names = {"x", "y", "z"};
  std::vector<bool> inside(static_cast<size_t>(layout.output_end));
  for (size_t set = 0; set < 2; ++set) {
    for (const size_t tensor : {1, 2}) {
      for (int64_t i = 0; i < sizes.tensor_bytes[tensor]; ++i)
        inside[static_cast<size_t>(layout.tensors[set][tensor] + i)] = true;
    }
    for (int64_t i = 0; i < sizes.workspace_bytes; ++i)
      inside[static_cast<size_t>(layout.workspaces[set] + i)] = true;
  }
  poison(*arena, layout.output_end, 9);
  for (int64_t at = 0; at < layout.output_end; at += 1 + static_cast<int64_t>(random.below(40))) {
    arena->data()[at] ^= 1;
    const bool found = !broken_canary(*arena, layout, sizes, 9, names).empty();
    EXPECT_EQ(found, !inside[static_cast<size_t>(at)]) << at;
    arena->data()[at] ^= 1;
  }
}

// ---- threads and locks

TEST(Parallel, EveryIndexOnceAndTheFirstErrorWins) {
  std::vector<std::atomic<int>> calls(100);
  EXPECT_TRUE(in_parallel(100, [&](int64_t i) -> Status {
    ++calls[static_cast<size_t>(i)];
    return {};
  }));
  for (const std::atomic<int>& count : calls) EXPECT_EQ(count, 1);
  const Status status = in_parallel(10, [](int64_t i) -> Status {
    if (i == 4) return fail(Fault::invalid, "four");
    return {};
  });
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().what, "four");
  const Status memory = in_parallel(3, [](int64_t) -> Status { throw std::bad_alloc(); });
  ASSERT_FALSE(memory);
  EXPECT_EQ(memory.error().fault, Fault::no_space);
}

TEST(CoreLock, OneHolderAtATime) {
  constexpr int nobodys_core = 1021;
  std::optional<Result<Fd>> first = lock_core(nobodys_core, 0);
  ASSERT_TRUE(*first) << first->error().what;
  const Result<Fd> second = lock_core(nobodys_core, 0);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().fault, Fault::busy);
  first.reset();
  EXPECT_TRUE(lock_core(nobodys_core, 0));
}

// ---- peaks

TEST(PeaksProbe, CachesAreFasterThanMemory) {
  const Result<Peaks> peaks = measure_peaks();
  if (!peaks && peaks.error().fault == Fault::retry) GTEST_SKIP() << peaks.error().what;
  ASSERT_TRUE(peaks) << peaks.error().what;
  EXPECT_GT(peaks->gflops, 1);
  EXPECT_LT(peaks->gflops, 2000);
  EXPECT_GT(peaks->l1_gbytes_s, peaks->memory_gbytes_s);
  EXPECT_GT(peaks->memory_gbytes_s, 0.5);
}

// ---- the program

class Program : public testing::Test {
 protected:
  Program() : folder_(std::move(*TempFolder::make("marathon-judge-test"))) {}

  ProcessSpec spec(const std::string& request) const {
    EXPECT_TRUE(write_file(folder_.path() / "request.json", request));
    ProcessSpec spec;
    spec.argv = {(own_folder() / "marathon-judge").string(), "--request",
                 (folder_.path() / "request.json").string(), "--result",
                 (folder_.path() / "result.json").string()};
    spec.environment = clean_environment(folder_.path());
    return spec;
  }

  static std::string request_of(const BenchRequest& request) {
    return dump_json({{"mode", "evaluate"},
                      {"task_folder", request.task_folder.string()},
                      {"candidate", request.candidate.string()},
                      {"baseline", request.baseline.string()},
                      {"oracle", request.oracle.string()},
                      {"emulation", request.emulation.string()},
                      {"worker", request.worker.string()},
                      {"temp_folder", request.temp_folder.string()},
                      {"seed", 5}});
  }

  TempFolder folder_;
};

TEST_F(Program, ABadRequestIsAnErrorOfItsOwnCode) {
  for (const char* request : {"", "{", "[]", "{\"mode\": 5}", "{\"mode\": \"evaluate\"}"}) {
    const Result<ProcessResult> result = run_process(spec(request));
    ASSERT_TRUE(result);
    EXPECT_EQ(result->exit_code, 2) << request << ": " << result->err;
    EXPECT_GT(result->err.size(), 10u);
    EXPECT_EQ(result->out, "");
  }
}

TEST_F(Program, AVerdictIsWrittenAndStagesAreLinesOfJson) {
  const ToyTask toy;
  const Result<ProcessResult> result =
      run_process(spec(request_of(toy.request(toy.candidate("")))));
  ASSERT_TRUE(result);
  ASSERT_EQ(result->exit_code, 0) << result->err;
  const Result<std::string> text = read_file(folder_.path() / "result.json");
  ASSERT_TRUE(text);
  const Result<Verdict> verdict = verdict_from_json(*parse_json(*text));
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->kind, VerdictKind::wrong);
  const Result<Json> line = parse_json(result->out.substr(0, result->out.find('\n')));
  ASSERT_TRUE(line) << result->out;
  EXPECT_EQ(json_string(*line, "stage"), "check");
}

TEST_F(Program, TheProfileModeRunsOneShape) {
  const ToyTask toy;
  const auto profile = [&](const std::string& shape) {
    ProcessSpec spec;
    spec.argv = {(own_folder() / "marathon-worker").string(),
                 "profile",
                 "--lib",
                 toy.honest().string(),
                 "--task-folder",
                 toy.folder().string(),
                 "--shape",
                 shape,
                 "--calls",
                 "3"};
    spec.environment = clean_environment(folder_.path());
    return *run_process(spec);
  };
  EXPECT_EQ(profile("T100-C64").exit_code, 0);
  const ProcessResult unknown = profile("nowhere");
  EXPECT_EQ(unknown.exit_code, 1);
  EXPECT_NE(unknown.err.find("no shape 'nowhere'"), std::string::npos);
}

std::vector<int> children_of(int pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/task/" + std::to_string(pid) + "/children");
  std::vector<int> children;
  for (int child = 0; file >> child;) children.push_back(child);
  return children;
}

TEST_F(Program, AKilledJudgeTakesItsWorkersAlong) {
  const ToyTask toy(Texts{{"timeout_s = 1", "timeout_s = 60"}});
  const std::filesystem::path endless = toy.candidate("for (volatile int i = 0;; i = i + 1) {}");
  Result<Process> judge = Process::start(spec(request_of(toy.request(endless))));
  ASSERT_TRUE(judge);
  std::vector<int> workers;
  for (int i = 0; i < 2000 && workers.size() < 2; ++i) {
    workers = children_of(judge->pid());
    ASSERT_FALSE(*judge->wait(0.005)) << judge->result().err;
  }
  ASSERT_FALSE(workers.empty());
  ::kill(judge->pid(), SIGKILL);
  ASSERT_TRUE(*judge->wait(10));
  for (const int worker : workers) {
    bool gone = false;
    for (int i = 0; i < 2000 && !gone; ++i) {
      gone = ::kill(worker, 0) != 0;
      if (!gone) ::usleep(5000);
    }
    EXPECT_TRUE(gone) << worker;
  }
}

}  // namespace
}  // namespace marathon
