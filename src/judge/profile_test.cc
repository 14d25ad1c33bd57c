#include "judge/profile.h"

#include "judge/judge_fixture.h"
#include "judge/pipeline.h"

namespace marathon {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::Pair;

TEST(PerfStat, CountsWithoutWhatIsNotSupported) {
  const std::map<std::string, double> counts = read_perf_stat(
      "# started on Tue\n\n1200345,,instructions:u,1000,100.00,,\n"
      "<not supported>,,cycles:u,0,100.00,,\n<not counted>,,branch-misses:u,0,0,,\n"
      "77,,cache-misses,900,100.00,,\n");
  EXPECT_THAT(counts, ElementsAre(Pair("cache-misses", 77), Pair("instructions", 1200345)));
  EXPECT_THAT(read_perf_stat("perf: command not found"), IsEmpty());
}

TEST(Callgrind, LinesWithoutTheCostOfCallees) {
  const CallgrindFacts facts = read_callgrind(
      "version: 1\nevents: Ir Dr Dw I1mr D1mr D1mw ILmr DLmr DLmw\n"
      "fl=(1) /src/solution.cc\nfn=(1) marathon_run\n10 100 5 6 0 1 2\n+2 50 1 1\n* 7\n"
      "cfi=(2) /usr/include/math.h\ncfn=(2) exp\ncalls=3 20\n12 9000 1 1\n-1 3\n"
      "fi=(2)\n20 40\nfe=(1)\n10 1\n"
      "summary: 1000 200 100 1 30 15 0 0 0\n");
  EXPECT_EQ(facts.instructions, 1000);
  EXPECT_EQ(facts.reads + facts.writes, 300);
  EXPECT_EQ(facts.read_misses + facts.write_misses, 45);
  ASSERT_EQ(facts.lines.size(), 4u);
  EXPECT_EQ(facts.lines[0].file, "/src/solution.cc");
  EXPECT_EQ(facts.lines[0].line, 10);
  EXPECT_EQ(facts.lines[0].instructions, 101);
  EXPECT_EQ(facts.lines[1].instructions, 57);  // +2 and * are both line 12
  EXPECT_EQ(facts.lines[2].file, "/usr/include/math.h");
  EXPECT_EQ(facts.lines[3].line, 11);
}

TEST(Callgrind, GarbageIsNothing) {
  for (const char* text :
       {"", "summary:", "fl=(", "calls=\n", "+\n-\n*\n", "fl=(1)\n99999999999999999999 1"})
    EXPECT_EQ(read_callgrind(text).instructions, 0) << text;
}

TEST(Remarks, LoopsOfTheCandidateOnly) {
  const VectorRemarks remarks = read_vector_remarks(
      "solution.cc:12:22: optimized: loop vectorized using 64 byte vectors\n"
      "solution.cc:12:22: optimized: loop vectorized using 32 byte vectors\n"
      "/usr/include/c++/12/bits/stl_algo.h:30:3: optimized: loop vectorized using 16 byte vectors\n"
      "solution.cc:20:5: missed: couldn't vectorize loop\n"
      "solution.cc:21:9: missed: not vectorized: complicated access pattern.\n"
      "solution.cc:18:5: missed: couldn't vectorize loop\n"
      "solution.cc:18:5: missed: not vectorized: multiple nested loops.\n"
      "solution.cc:25:5: missed: statement clobbers memory: f ();\n"
      "solution.cc: In function 'int f()':\n");
  EXPECT_EQ(remarks.vectorised, 2);
  EXPECT_THAT(remarks.loops_by_bytes, ElementsAre(Pair(32, 1), Pair(64, 1)));
  // The loop around others is no loss.
  EXPECT_THAT(remarks.missed_loops,
              ElementsAre(Pair("solution.cc:20", "complicated access pattern.")));
  EXPECT_EQ(remarks.missed, 1);
}

TEST(Frames, TheLargest) {
  const Frame frame = largest_frame(
      "solution.cc:3:5:void helper(int)\t48\tstatic\n"
      "solution.cc:9:16:int marathon_run(const MarathonArgs*)\t1344\tdynamic,bounded\nbroken\n");
  EXPECT_EQ(frame.bytes, 1344);
  EXPECT_EQ(frame.function, "int marathon_run(const MarathonArgs*)");
  EXPECT_EQ(largest_frame("").bytes, 0);
}

TEST(SpillCount, VectorMovesToTheStack) {
  const Spills spills = count_spills(
      "0000 <marathon_run>:\n"
      "  10:\tvmovaps %zmm1,0x40(%rsp)\n"
      "  18:\tvmovups -0x20(%rbp),%ymm3\n"
      "  20:\tvmovups (%rdi),%zmm1\n"
      "  28:\tmov    %rax,0x8(%rsp)\n"
      "  30:\tvfmadd231ps 0x40(%rsp),%zmm2,%zmm3\n");
  EXPECT_EQ(spills.instructions, 5);
  EXPECT_EQ(spills.vector_moves, 2);
}

// ---- sentences

ProfileFacts measured_facts() {
  ProfileFacts facts;
  facts.shape = "T512";
  facts.bound_by = "arithmetic";
  facts.time_us = 100;
  facts.floor_us = 25;
  facts.flops = 2e6;
  facts.bytes = 1e5;
  facts.peak_gflops = 80;
  facts.peak_gbytes_s = 20;
  return facts;
}

std::string all(const ProfileFacts& facts) {
  std::string text;
  for (const std::string& sentence : sentences_of(facts)) text += sentence + "\n";
  return text;
}

TEST(Sentences, RoofAndFloor) {
  EXPECT_THAT(
      all(measured_facts()),
      AllOf(HasSubstr("At T512 it runs at 25 % of the arithmetic floor: up to 4.0 times"),
            HasSubstr("20.0 GFLOP/s of 80 and 1.0 GB/s of 20 measured; 20 operations a byte "
                      "where this core needs 4")));
  EXPECT_EQ(figures_of(measured_facts()).at("fraction_of_floor"), 0.25);
  ProfileFacts fast = measured_facts();
  fast.floor_us = 95;
  EXPECT_THAT(all(fast), HasSubstr("it is at its limit"));
}

TEST(Sentences, NeverMoreThanSixAndNoneWithoutFacts) {
  EXPECT_THAT(sentences_of({}), IsEmpty());
  EXPECT_THAT(figures_of({}), IsEmpty());
  ProfileFacts facts = measured_facts();
  facts.instructions = 1e6;
  facts.cycles = 5e5;
  facts.l1_miss_rate = 0.2;
  facts.cold_us = 300;
  facts.hot_lines = {"solution.cc:3 (50 %): x"};
  facts.remarks.vectorised = 3;
  facts.spills = {100, 30};
  EXPECT_EQ(sentences_of(facts).size(), 6u);
  EXPECT_THAT(all(facts), AllOf(HasSubstr("2.00 a cycle"), HasSubstr("30 of 100 instructions"),
                                HasSubstr("20.0 % of its accesses to memory miss L1: a smaller"),
                                HasSubstr("Hottest lines: solution.cc:3")));
}

TEST(Sentences, CallgrindSaysWhatItCouldNotCount) {
  ProfileFacts facts = measured_facts();
  facts.instructions = 1e6;
  facts.counted_by = "callgrind";
  EXPECT_THAT(all(facts), HasSubstr("built without AVX-512"));
  facts.counted_by = "perf";
  EXPECT_THAT(all(facts), Not(HasSubstr("AVX-512")));
}

// ---- the real tools

TEST(ProfileKernel, AKernelOfThisMachine) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "valgrind cannot run a worker that has a sanitizer";
#endif
  if (!find_program("valgrind")) GTEST_SKIP() << "valgrind is not installed";
  const TempFolder folder = temp_folder();
  put_kernel_task(folder.path() / "task");
  const LoadedTask task = must_load(folder.path() / "task");
  EvaluationRequest request;
  request.candidate_folder = task.folder / "start";
  request.cache_folder = shared_cache();
  Verdict verdict;
  verdict.shapes.resize(1);
  verdict.shapes[0].name = "N1000";
  verdict.shapes[0].time_us = 2;
  verdict.shapes[0].floor_us = 1;
  verdict.shapes[0].bound_by = "memory";
  const Result<ProfileSummary> profile =
      profile_kernel(task, request, verdict, folder.path() / "profile.txt", {});
  ASSERT_TRUE(profile) << profile.error().what;
  EXPECT_THAT(profile->source, testing::AnyOf("perf", "callgrind"));
  // One call of 1,000 elements, not the start of the program around it.
  EXPECT_GT(profile->figures.at("instructions_per_call"), 100);
  EXPECT_LT(profile->figures.at("instructions_per_call"), 20'000);
  EXPECT_EQ(profile->figures.at("fraction_of_floor"), 0.5);
  EXPECT_GE(profile->sentences.size(), 2u);
  EXPECT_THAT(text_of(folder.path() / "profile.txt"), HasSubstr("remarks on loops"));
  if (profile->source == "callgrind") {
    EXPECT_THAT(text_of(folder.path() / "profile.txt"), HasSubstr("solution.cc:5"));
  }
}

}  // namespace
}  // namespace marathon
