// Real libraries in real workers: what each kind of candidate is told.
#include "bench/evaluate.h"

#include <gtest/gtest.h>

#include "bench/bench_fixture.h"
#include "bench/mutants.h"
#include "bench/pairs.h"
#include "bench/pairs.h"

namespace marathon {
namespace {

// Compiling takes longer than judging: one task for all.
const ToyTask& toy() {
  static const ToyTask task;
  return task;
}

Verdict judged(const std::filesystem::path& library, const ToyTask& task = toy()) {
  const Result<Verdict> verdict = evaluate_candidate(task.request(library), task.task());
  EXPECT_TRUE(verdict) << verdict.error().what;
  return verdict ? *verdict : Verdict();
}

std::string why(const Verdict& verdict) {
  return verdict.reasons.empty() ? "" : verdict.reasons.front();
}

void expect(const Verdict& verdict, VerdictKind kind, const std::string& words) {
  EXPECT_EQ(to_string(verdict.kind), to_string(kind)) << words << ": " << why(verdict);
  EXPECT_NE(why(verdict).find(words), std::string::npos) << why(verdict);
}

TEST(Evaluate, AnHonestKernelIsMeasured) {
  const Verdict verdict = judged(toy().honest());
  EXPECT_TRUE(is_measured(verdict.kind) || verdict.kind == VerdictKind::ambiguous) << why(verdict);
  ASSERT_EQ(verdict.shapes.size(), 4u);
  EXPECT_EQ(verdict.shapes[0].name, "T100-C64");  // the task's order, whatever order they ran in
  EXPECT_EQ(verdict.shapes[3].set, "stress");
  EXPECT_GT(verdict.shapes[0].outputs.at(0).bound, 0);
  EXPECT_LT(verdict.shapes[0].error, 1e-6);
  EXPECT_GE(verdict.provenance.core, 0);
  EXPECT_EQ(verdict.provenance.sandbox, "full");
  if (verdict.kind == VerdictKind::ambiguous) GTEST_SKIP() << "a busy machine: " << why(verdict);
  EXPECT_GT(verdict.shapes[0].time_us, 0);
  EXPECT_GT(verdict.shapes[0].cold_us, 0);
  EXPECT_EQ(verdict.shapes[2].time_us, 0);  // hidden: checked only
  EXPECT_GT(verdict.provenance.windows, 0);
}

TEST(Evaluate, FourTimesAsFastIsFasterAndConfirmed) {
  BenchRequest request = toy().request(toy().honest());
  request.baseline = toy().candidate(honest_body(4));
  const Result<Verdict> verdict = evaluate_candidate(request, toy().task());
  ASSERT_TRUE(verdict) << verdict.error().what;
  if (verdict->kind == VerdictKind::ambiguous) GTEST_SKIP() << why(*verdict);
  expect(*verdict, VerdictKind::faster, "times the speed of the baseline");
  EXPECT_TRUE(verdict->confirmed);
  EXPECT_GT(verdict->speedup.low, 2);
  EXPECT_LT(verdict->speedup.high, 8);
  EXPECT_EQ(verdict->provenance.restarts, 4);  // two of the plan, two of the confirmation
}

TEST(Evaluate, AClearLossAgainstTheIncumbentEndsEarly) {
  BenchRequest request = toy().request(toy().candidate(honest_body(4)));
  request.incumbent = toy().honest();
  request.race = true;
  const Result<Verdict> verdict = evaluate_candidate(request, toy().task());
  ASSERT_TRUE(verdict) << verdict.error().what;
  if (verdict->kind == VerdictKind::ambiguous) GTEST_SKIP() << why(*verdict);
  expect(*verdict, VerdictKind::slower, "times the speed of the incumbent");
  EXPECT_TRUE(verdict->decided_early);
  EXPECT_EQ(verdict->provenance.restarts, 1);
}

TEST(Evaluate, AQuickLookSeesTheFirstListedAndTheStressShapes) {
  BenchRequest request = toy().request(toy().honest());
  request.quick = true;
  const Result<Verdict> verdict = evaluate_candidate(request, toy().task());
  ASSERT_TRUE(verdict) << verdict.error().what;
  ASSERT_EQ(verdict->shapes.size(), 2u);
  EXPECT_EQ(verdict->shapes[0].name, "T100-C64");
  EXPECT_EQ(verdict->shapes[1].name, "large");
  EXPECT_FALSE(verdict->confirmed);
}

TEST(Evaluate, WrongOutputs) {
  expect(judged(toy().candidate("memset(y, 0, T * C * 4); memset(last, 0, C * 4);")),
         VerdictKind::wrong, "relative error 1.00e+00");
  expect(judged(toy().candidate(honest_body() + "last[0] = 0.0f / 0.0f;")), VerdictKind::wrong,
         "output last: element 0 is");
  expect(judged(toy().candidate("")), VerdictKind::wrong, "");  // nothing written: poison
  // Right in the check, wrong in a timed window only.
  expect(judged(toy().candidate(honest_body() + "static int calls; if (++calls > 14) y[5] = 1;")),
         VerdictKind::wrong, "in a timed window");
}

TEST(Evaluate, AHiddenShapeIsNotNamed) {
  const Verdict verdict = judged(toy().candidate(honest_body() + "if (T == 1) last[0] += 1;"));
  expect(verdict, VerdictKind::wrong, "a hidden shape: output last");
  EXPECT_EQ(why(verdict).find("one"), std::string::npos) << why(verdict);
  // "C 0–2" would tell its dims.
  EXPECT_EQ(why(verdict).find("C "), std::string::npos) << why(verdict);
  EXPECT_EQ(verdict.shapes[2].reason.find("C "), std::string::npos);
}

TEST(Evaluate, OverrunsTouchCanaries) {
  expect(judged(toy().candidate(honest_body() + "y[T * C] = 1;")), VerdictKind::wrong,
         "behind the end of output y");
  expect(judged(toy().candidate(honest_body() + "last[-1] = 1;")), VerdictKind::wrong,
         "before output last");
  expect(judged(toy().candidate(honest_body() + "w[16] = 1;",
                                "extern \"C\" int64_t marathon_workspace_bytes(const int64_t*, "
                                "int64_t) { return 64; }\n")),
         VerdictKind::wrong, "behind the end of the workspace");
}

TEST(Evaluate, TheWorkspaceIsAlignedLargeEnoughAndPoisoned) {
  const Verdict verdict = judged(toy().candidate(
      R"(if (((uintptr_t)w & 4095) || args->workspace_bytes < C * 4) return 9;
         static float before; if (w[0] == before) return 8; before = w[0];
         memset(w, 0, C * 4);)" +
          honest_body(),
      "extern \"C\" int64_t marathon_workspace_bytes(const int64_t* d, int64_t) { return 4 * d[1]; "
      "}\n"));
  EXPECT_TRUE(is_measured(verdict.kind) || verdict.kind == VerdictKind::ambiguous) << why(verdict);
}

TEST(Evaluate, AGreedyWorkspaceIsRefused) {
  expect(judged(toy().candidate(honest_body(),
                                "extern \"C\" int64_t marathon_workspace_bytes(const int64_t*, "
                                "int64_t) { return 1LL << 40; }\n")),
         VerdictKind::crashed, "asks for a workspace of");
}

TEST(Evaluate, Crashes) {
  expect(judged(toy().candidate("*(volatile int*)nullptr = 1;")), VerdictKind::crashed, "SIGSEGV");
  expect(judged(toy().candidate("((float*)x)[0] = 1;" + honest_body())), VerdictKind::crashed,
         "read-only");
  expect(judged(toy().candidate("return 3;")), VerdictKind::crashed, "marathon_run returned 3");
  expect(judged(toy().candidate("_exit(0);", "#include <unistd.h>\n")), VerdictKind::crashed,
         "ended by itself");
  expect(judged(toy().library("int nothing;\n")), VerdictKind::crashed, "exports no marathon_run");
  expect(judged(toy().candidate(
             honest_body(),
             "__attribute__((constructor)) static void early() { __builtin_trap(); }\n")),
         VerdictKind::crashed, "while being loaded");
}

TEST(Evaluate, MemoryIsLimited) {
  const Verdict verdict = judged(toy().candidate(
      honest_body() +
          "if (char* much = (char*)malloc(2UL << 30)) { memset(much, 1, 4096); memset(y, "
          "0, T * C * 4); }",
      "#include <stdlib.h>\n"));
  EXPECT_TRUE(is_measured(verdict.kind) || verdict.kind == VerdictKind::ambiguous) << why(verdict);
}

TEST(Evaluate, EndlessCallsAreKilled) {
  expect(judged(toy().candidate("for (volatile int i = 0;; i = i + 1) {}")), VerdictKind::timed_out,
         "no answer within");
  expect(judged(toy().candidate(honest_body(),
                                "__attribute__((constructor)) static void early() { for (volatile "
                                "int i = 0;; i = i + 1) {} }\n")),
         VerdictKind::timed_out, "constructors");
}

TEST(Evaluate, AnswersKeptByPointerOrFromBeforeAreWrong) {
  expect(judged(toy().candidate("static const void* seen; if (seen == x) return 0; seen = x;" +
                                honest_body())),
         VerdictKind::wrong, "");
  // Remembers the first answer and repeats it.
  expect(judged(toy().candidate(
             "if (kept_t == T && kept_c == C) { memcpy(y, kept, T * C * 4); memcpy(last, y + (T - "
             "1) * C, C * 4); return 0; }" +
                 honest_body() + "kept_t = T; kept_c = C; memcpy(kept, y, T * C * 4);",
             "static float kept[100 * 150]; static int64_t kept_t, kept_c;\n")),
         VerdictKind::wrong, "");
}

// Each of these would compute zeros if it got what it reaches for.
TEST(Evaluate, TheJailKeepsOut) {
  const std::string includes =
      "#include <fcntl.h>\n#include <pthread.h>\n#include <sys/msg.h>\n#include <sys/shm.h>\n"
      "#include <sys/socket.h>\n#include <sys/mman.h>\n#include <sys/time.h>\n#include "
      "<unistd.h>\n";
  for (const char* reaches :
       {"shmget(4711, 4096, IPC_CREAT | 0600) >= 0", "msgget(4711, IPC_CREAT | 0600) >= 0",
        "socket(AF_UNIX, SOCK_STREAM, 0) >= 0", "fork() >= 0",
        "open(\"/proc/self/maps\", O_RDONLY) >= 0", "open(\"/etc/passwd\", O_RDONLY) >= 0",
        "open(\"/tmp/marathon-left-behind\", O_RDWR | O_CREAT, 0600) >= 0", "alarm(1) == 0",
        "mprotect((void*)((uintptr_t)x & ~4095UL), 4096, PROT_READ | PROT_WRITE) == 0"}) {
    const Verdict verdict = judged(
        toy().candidate(honest_body() + "if (" + reaches + ") memset(y, 0, T * C * 4);", includes));
    EXPECT_TRUE(is_measured(verdict.kind) || verdict.kind == VerdictKind::ambiguous)
        << reaches << ": " << to_string(verdict.kind) << ": " << why(verdict);
  }
}

// SIGCONT wakes the worker before it is asked: a handler could work there, where no clock runs.
TEST(Evaluate, WorkOutsideOfTheCallsIsSuspicious) {
  const Verdict verdict = judged(toy().candidate(
      "signal(SIGCONT, on_wake);" + honest_body(),
      "#include <signal.h>\nstatic void on_wake(int) { for (volatile int i = 0; i < 3000000; i = i "
      "+ 1) {} }\n"));
  if (verdict.kind == VerdictKind::ambiguous) GTEST_SKIP() << why(verdict);
  expect(verdict, VerdictKind::suspicious, "clocks disagree");
}

TEST(Evaluate, AForgedAnswerIsSuspicious) {
  expect(judged(toy().candidate(
             "int64_t forged[4] = {0, 0, 0, -1}; write(3, forged, 24);" + honest_body(),
             "#include <unistd.h>\n")),
         VerdictKind::suspicious, "forged");
}

TEST(Evaluate, ATimeBelowThePeakIsSuspicious) {
  BenchRequest request = toy().request(toy().honest());
  request.peaks = {0.001, 1, 1, 1, 1};  // a machine of a million operations a second
  const Result<Verdict> verdict = evaluate_candidate(request, toy().task());
  ASSERT_TRUE(verdict) << verdict.error().what;
  if (verdict->kind == VerdictKind::ambiguous) GTEST_SKIP() << why(*verdict);
  expect(*verdict, VerdictKind::suspicious, "below what this machine can do");
  EXPECT_GT(verdict->shapes[0].floor_us, verdict->shapes[0].time_us);
  EXPECT_EQ(verdict->shapes[0].bound_by, "arithmetic");
}

TEST(Evaluate, ColdDecidesWhereTheTaskSaysSo) {
  const ToyTask cold(Texts{{"cache = \"warm\"", "cache = \"cold\""}});
  const Verdict verdict = judged(cold.honest(), cold);
  if (verdict.kind == VerdictKind::ambiguous) GTEST_SKIP() << why(verdict);
  EXPECT_TRUE(is_measured(verdict.kind)) << why(verdict);
  EXPECT_EQ(verdict.shapes[0].time_us, verdict.shapes[0].cold_us);
  EXPECT_GT(verdict.shapes[0].warm_us, 0);
}

TEST(Evaluate, NoiseOfTheBaselineAgainstItself) {
  const Result<NoiseFigures> noise =
      measure_noise_figures(toy().request(toy().honest()), toy().task());
  if (!noise && noise.error().fault == Fault::retry) GTEST_SKIP() << noise.error().what;
  ASSERT_TRUE(noise) << noise.error().what;
  EXPECT_GE(noise->noise, least_noise);
  EXPECT_LE(noise->ratio.low, noise->ratio.value);
  EXPECT_GE(noise->ratio.high, noise->ratio.value);
  EXPECT_NEAR(noise->ratio.value, 1, 0.5);
}

TEST(Evaluate, PairsOfTheSameAreDecidedOneByOne) {
  BenchRequest request = toy().request(toy().honest());
  request.pairs = 3;
  request.noise = 0.5;
  request.quick = true;
  const Result<PairFigures> figures = measure_pairs(request, toy().task());
  if (!figures && figures.error().fault == Fault::retry) GTEST_SKIP() << figures.error().what;
  ASSERT_TRUE(figures) << figures.error().what;
  ASSERT_EQ(figures->pairs.size(), 3u);
  EXPECT_EQ(figures->called_different(), 0);
  EXPECT_EQ(figures->noise, 0.5);
  ASSERT_FALSE(figures->shapes.empty());
  for (const PairShape& shape : figures->shapes) {
    EXPECT_EQ(shape.us.size(), 3u);
    EXPECT_GT(shape.us[0], 0);
    EXPECT_GE(shape.half_width[0], least_noise);
  }
}

TEST(Evaluate, RunOnceRunsAndRefusesUnknownShapes) {
  BenchRequest request = toy().request(toy().honest());
  request.calls = 3;
  EXPECT_TRUE(run_once(request, toy().task()));
  request.shape = "nowhere";
  const Status status = run_once(request, toy().task());
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().fault, Fault::not_found);
}

TEST(Evaluate, AnOracleThatRefusesIsTheTasksFault) {
  BenchRequest request = toy().request(toy().honest());
  request.oracle = toy().library(
      "#include \"marathon_kernel.h\"\nextern \"C\" int marathon_oracle(const MarathonArgs*) { "
      "return 1; }\n");
  const Result<Verdict> verdict = evaluate_candidate(request, toy().task());
  ASSERT_FALSE(verdict);
  EXPECT_EQ(verdict.error().fault, Fault::invalid);
}

TEST(Mutants, EveryOneIsRefusedOnEveryListedShape) {
  const Result<std::vector<MutantOutcome>> outcomes =
      run_mutants(toy().request(toy().honest()), toy().task());
  ASSERT_TRUE(outcomes) << outcomes.error().what;
  int applicable = 0;
  for (const MutantOutcome& outcome : *outcomes) {
    EXPECT_TRUE(outcome.refused) << outcome.mutant << " at " << outcome.shape << ": "
                                 << outcome.reason;
    EXPECT_FALSE(outcome.reason.empty()) << outcome.mutant;
    applicable += outcome.applicable;
  }
  EXPECT_GT(applicable, 34);  // of 2 × 21: what does not apply is the exception
}

TEST(Mutants, ACheckerThatForgivesIsFoundOut) {
  const ToyTask blind(Texts{{"minimum = 1e-6", "minimum = 0.4"}, {"cap = 1e-5", "cap = 0.5"}});
  const Result<std::vector<MutantOutcome>> outcomes =
      run_mutants(blind.request(blind.honest()), blind.task());
  ASSERT_TRUE(outcomes) << outcomes.error().what;
  int passed = 0;
  for (const MutantOutcome& outcome : *outcomes) passed += !outcome.refused;
  EXPECT_GT(passed, 4);
}

TEST(Mutants, AWrongStartIsSaidFirst) {
  const Result<std::vector<MutantOutcome>> outcomes =
      run_mutants(toy().request(toy().candidate("")), toy().task());
  ASSERT_FALSE(outcomes);
  EXPECT_NE(outcomes.error().what.find("the starting solution is wrong"), std::string::npos);
}

}  // namespace
}  // namespace marathon
