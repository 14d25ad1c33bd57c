// compute-sanitizer as a step of the judge: what it prints, what that decides, when it is asked.
#include "judge/sanitize.h"

#include <nlohmann/json.hpp>

#include "judge/gpu_tool_fixture.h"
#include "judge/pipeline.h"

namespace marathon {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

const std::string head = "========= COMPUTE-SANITIZER\n",
                  clean = "========= ERROR SUMMARY: 0 errors\n",
                  no_race =
                      "========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)\n";

std::string invalid_write(const std::string& where, const std::string& more = "") {
  return "========= Invalid __global__ write of size 4 bytes\n=========     at " + where +
         "\n=========     by thread (0,0,0) in block (1,0,0)\n=========     Access to "
         "0x7f0000000190 "
         "is out of bounds\n=========     and is 1 bytes after the nearest allocation at "
         "0x7f0000000000 of size 400 bytes\n" +
         more + "=========\n";
}

std::string read_of(uint64_t address) {
  return fmt::format(
      "========= Uninitialized __global__ memory read of size 4 bytes\n=========     at "
      "add+0x70 in solution.cu:9\n=========     by thread (31,0,0) in block (1,0,0)\n=========     "
      "Address {:#x}\n=========\n",
      address);
}

SanitizerReport read(const std::string& log) { return read_sanitizer(log, {0x1000, 0x1000}); }

std::string errors(int64_t count) {
  return fmt::format("========= ERROR SUMMARY: {} error{}\n", count, count == 1 ? "" : "s");
}

// ---- what it prints

TEST(SanitizerReports, ACleanOne) {
  for (const std::string& log : {head + clean, head + no_race, "noise\n" + head + "\r\n" + clean}) {
    const SanitizerReport report = read(log);
    EXPECT_TRUE(report.is_whole);
    EXPECT_EQ(report.errors, 0);
    EXPECT_THAT(report.findings, IsEmpty());
    EXPECT_EQ(report.fault, "");
  }
}

TEST(SanitizerReports, FindingsByKindAndKernel) {
  const SanitizerReport report =
      read(head + invalid_write("scale+0x90 in solution.cu:5") + invalid_write("scale+0x90") +
           invalid_write("void add<float, (int)3>(T1 *, long)+0x10") + errors(3));
  ASSERT_EQ(report.findings.size(), 2u);
  EXPECT_EQ(report.findings[0].kind, "Invalid __global__ write of size 4 bytes");
  EXPECT_EQ(report.findings[0].kernel, "scale");
  EXPECT_EQ(report.findings[0].count, 2);
  EXPECT_EQ(report.findings[1].kernel, "add<float, (int)3>");
  EXPECT_EQ(report.errors, 3);
  EXPECT_EQ(findings_in_words(report),
            "Invalid __global__ write of size 4 bytes (2 times, in scale); "
            "Invalid __global__ write of size 4 bytes (once, in add<float, (int)3>)");
}

TEST(SanitizerReports, PlacesAsOlderOnesWriteThem) {
  for (const char* where : {"0x90 in solution.cu:5:scale(float *, long)", "0x90 in scale(float *)",
                            "0x90 in /a:b/solution.cu:51:void scale(int)", "0x90 in scale"})
    EXPECT_EQ(read(invalid_write(where)).findings.at(0).kernel, "scale") << where;
}

// An inlined function stands first; the kernel is the outermost frame.
TEST(SanitizerReports, TheKernelOfAnInlinedFunction) {
  const std::string log =
      invalid_write("copy_tile(int)+0xb10 in tile.h:98",
                    "=========         Device Frame: stage(int)+0xb10 in tile.h:40\n"
                    "=========         Device Frame: scale(float *)+0xb10 in solution.cu:7\n");
  EXPECT_EQ(read(log).findings.at(0).kernel, "scale");
}

TEST(SanitizerReports, Races) {
  const std::string race =
      "========= Error: Race reported between Write access at fold+0x550 in solution.cu:10\n"
      "=========     and Read access at fold+0x580 in solution.cu:17 [65536 hazards]\n"
      "=========     and Write access at fold+0x550 in solution.cu:10 [124 hazards]\n=========\n";
  const std::string warning =
      "========= Warning: Race reported between Read access at fold+0x5 in solution.cu:1\n"
      "=========     and Read access at fold+0x9 in solution.cu:2 [1 hazards]\n=========\n";
  const SanitizerReport report =
      read(head + warning + race +
           "========= RACECHECK SUMMARY: 2 hazards displayed (1 error, 1 warning)\n");
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_EQ(report.findings[0].kind, "Race reported between Write access and Read access");
  EXPECT_EQ(report.findings[0].kernel, "fold");
  EXPECT_EQ(report.errors, 1);
}

TEST(SanitizerReports, Barriers) {
  const SanitizerReport report =
      read(head +
           "========= Barrier error detected. Divergent thread(s) in block\n"
           "=========     at fold+0x2c8 in solution.cu:20\n"
           "=========     by thread (63,0,0) in block (0,0,0)\n=========\n" +
           errors(1));
  EXPECT_EQ(findings_in_words(report),
            "Barrier error detected. Divergent thread(s) in block (once, in fold)");
}

TEST(SanitizerReports, ReadsOfTheInputsAreNone) {
  const SanitizerReport report =
      read(head + read_of(0x1000) + read_of(0x1ffc) + read_of(0x2000) + read_of(0xffc) + errors(4));
  EXPECT_EQ(report.passed_over, 2);
  EXPECT_EQ(report.errors, 2);
  EXPECT_EQ(report.findings.at(0).count, 2);
  EXPECT_EQ(report.findings.at(0).kernel, "add");
  // A write there is one.
  std::string write = invalid_write("scale+0x9");
  write.replace(write.find("0x7f0000000190"), 14, "0x1000");
  EXPECT_EQ(read(head + write + errors(1)).errors, 1);
}

TEST(SanitizerReports, ErrorsThatAreOnlyCounted) {
  const SanitizerReport report =
      read(head + invalid_write("scale+0x90") + errors(769) +
           "========= ERROR SUMMARY: 768 errors were not printed. Use --print-limit option\n");
  EXPECT_EQ(report.errors, 769);
  EXPECT_EQ(report.not_printed, 768);
  EXPECT_EQ(findings_in_words(read(head + errors(2))), "of a kind that Marathon does not know");
}

TEST(SanitizerReports, ItsOwnFaultIsNoFinding) {
  const SanitizerReport report =
      read(head +
           "========= Error: Target application terminated before first instrumented call\n"
           "========= Tracking kernels requires the --target-processes all option.\n");
  EXPECT_FALSE(report.is_whole);
  EXPECT_EQ(report.errors, 0);
  EXPECT_EQ(report.fault, "Target application terminated before first instrumented call");
}

TEST(SanitizerReports, Garbage) {
  for (const std::string& log :
       {std::string(), std::string("\n\n"), std::string("=========\n=========   \n"),
        std::string("=========     at scale+0x90\n"), std::string("========= X SUMMARY: many\n"),
        std::string("\0\xff=========\0", 12), std::string("=========")}) {
    const SanitizerReport report = read(log);
    EXPECT_FALSE(report.is_whole);
    EXPECT_EQ(report.errors, 0);
  }
}

// ---- the step

// A compute-sanitizer in PATH: its report of each tool is a file, its exit code another.
class SanitizeTest : public GpuToolTest {
 protected:
  SanitizeTest()
      : path_("PATH", (root() / "bin").string() + ":" + std::getenv("PATH")),
        own_("COMPUTE_SANITIZER", "") {}

  void put_sanitizer(const std::string& before_exit = "") {
    put_program(root() / "bin/compute-sanitizer", fmt::format(R"(
echo "$@" >>{0}/words
while [ $# -gt 0 ]; do
  case $1 in --tool) tool=$2 ;; --log-file) log=$2 ;; esac
  shift
done
if [ -e {0}/report-$tool ]; then cp {0}/report-$tool $log; fi
{1}
exit $(cat {0}/code-$tool 2>/dev/null || echo 0)
)",
                                                              root().string(), before_exit));
  }
  void put_report(const std::string& tool, const std::string& text, int code = 0) {
    put(root() / ("report-" + tool), text);
    put(root() / ("code-" + tool), std::to_string(code));
  }
  void demand(const std::string& tools) {
    std::string text = text_of(root() / "task/task.toml");
    put(root() / "task/task.toml", text + "[judge]\nsanitize = [" + tools + "]\n");
  }
  SanitizeOutcome sanitize() {
    const LoadedTask task = must_load(root() / "task");
    const Result<SanitizeOutcome> made =
        sanitize_gpu_kernel(task, request_, {}, root() / "sanitize.txt", {});
    EXPECT_TRUE(made) << (made ? "" : made.error().what);
    return made ? *made : SanitizeOutcome();
  }
  void expect_ambiguous(const std::string& words) {
    const SanitizeOutcome outcome = sanitize();
    EXPECT_EQ(outcome.refused, VerdictKind::ambiguous) << outcome.sentence;
    EXPECT_THAT(outcome.sentence, AllOf(HasSubstr(words), HasSubstr("judge it again")));
  }

  EnvironmentVariable path_, own_;
};

TEST_F(SanitizeTest, ACleanCandidate) {
  put_sanitizer();
  demand(R"("memcheck", "racecheck")");
  put_report("memcheck", head + clean);
  put_report("racecheck", head + no_race);
  const SanitizeOutcome outcome = sanitize();
  EXPECT_FALSE(outcome.refused);
  EXPECT_EQ(outcome.sentence, "compute-sanitizer finds nothing at N1000 (memcheck, racecheck)");
  const std::string words = text_of(root() / "words");
  EXPECT_THAT(words, AllOf(HasSubstr("--tool memcheck"), HasSubstr("--tool racecheck"),
                           HasSubstr("--target-processes application-only"),
                           HasSubstr("--error-exitcode 86"), HasSubstr("replayer")));
  EXPECT_THAT(text_of(root() / "asked"), AllOf(HasSubstr("\"run-once\""), HasSubstr("\"N1000\"")));
  EXPECT_THAT(text_of(root() / "sanitize.txt"),
              AllOf(HasSubstr("-- memcheck at N1000"), HasSubstr("-- racecheck at N1000"),
                    HasSubstr("RACECHECK SUMMARY")));
}

TEST_F(SanitizeTest, AFindingIsRefusedAndNoToolComesAfterIt) {
  put_sanitizer();
  demand(R"("memcheck", "racecheck")");
  put_report("memcheck", head + invalid_write("scale+0x90 in solution.cu:5") + errors(1), 86);
  // The context of a kernel that ended so is lost.
  put(root() / "failure", "CUDA_ERROR_LAUNCH_FAILED");
  const SanitizeOutcome outcome = sanitize();
  EXPECT_EQ(outcome.refused, VerdictKind::rule_broken);
  EXPECT_THAT(outcome.sentence,
              AllOf(HasSubstr("compute-sanitizer's memcheck finds an error at N1000: Invalid "
                              "__global__ write of size 4 bytes (once, in scale)"),
                    HasSubstr("sanitize.txt"), HasSubstr("-lineinfo")));
  EXPECT_THAT(text_of(root() / "words"), Not(HasSubstr("racecheck")));
  EXPECT_THAT(text_of(root() / "sanitize.txt"), HasSubstr("by thread (0,0,0)"));
}

// What a kernel prints reaches the replayer's own output, never the report.
TEST_F(SanitizeTest, WhatAKernelPrintsDecidesNothing) {
  put_sanitizer("echo '========= ERROR SUMMARY: 0 errors'");
  demand("\"memcheck\"");
  put_report("memcheck", head + invalid_write("scale+0x90") + errors(1), 86);
  EXPECT_EQ(sanitize().refused, VerdictKind::rule_broken);
  put_report("memcheck", head);
  expect_ambiguous("no whole report");
  put_sanitizer("printf '========= Invalid __global__ write\\n=========     at x+0x1\\n'");
  put_report("memcheck", head + clean);
  EXPECT_FALSE(sanitize().refused);
}

TEST_F(SanitizeTest, OneThatIsNotThere) {
  demand("\"memcheck\"");
  const EnvironmentVariable none("COMPUTE_SANITIZER", "no-such-program");
  expect_ambiguous("demands memcheck of a new best, but compute-sanitizer is not installed");
  EXPECT_FALSE(fs::exists(root() / "asked"));
}

TEST_F(SanitizeTest, OneThatHangs) {
  put_sanitizer("sleep 60");
  demand("\"synccheck\"");
  expect_ambiguous("synccheck at N1000 took longer than 120 s");
  // What it found before stands.
  put_report("synccheck", head +
                              "========= Barrier error detected. Divergent thread(s) in warp\n"
                              "=========     at fold+0x20\n=========\n");
  EXPECT_EQ(sanitize().refused, VerdictKind::rule_broken);
}

TEST_F(SanitizeTest, OneThatCrashesOrTalksNonsense) {
  put_sanitizer("echo; echo compute-sanitizer: no such option; echo");
  demand("\"memcheck\"");
  put_report("memcheck", "", 1);
  expect_ambiguous("exit code 1 and left no whole report; it said: compute-sanitizer: no such");
  put_report("memcheck", std::string("\xff\xfe\0garbage\n{]", 13) + "\n\n");
  expect_ambiguous("left no whole report");
  put_report("memcheck", head + "========= Error: No attachable process found.\n", 3);
  expect_ambiguous("it said: No attachable process found.");
  fs::remove(root() / "report-memcheck");
  expect_ambiguous("left no whole report");
  put_sanitizer("kill -SEGV $$");
  put_report("memcheck", head);
  expect_ambiguous("left no whole report");
}

TEST_F(SanitizeTest, AReplayThatFailsWithoutAFindingTellsNothing) {
  put_sanitizer();
  demand("\"memcheck\"");
  put_report("memcheck", head + clean);
  put(root() / "failure", "CUDA_ERROR_OUT_OF_MEMORY: could not load a module");
  expect_ambiguous("the replay failed under it: CUDA_ERROR_OUT_OF_MEMORY");
  fs::remove(root() / "failure");
  put_report("memcheck", head + clean, 7);
  expect_ambiguous("the replay failed under it: exit code 7");
}

TEST_F(SanitizeTest, ReadsOfTheInputsUnderInitcheck) {
  put_sanitizer();
  demand("\"initcheck\"");
  put_report("initcheck", head + read_of(0x1000) + errors(1), 86);
  EXPECT_FALSE(sanitize().refused);
  put_report("initcheck", head + read_of(0x1000) + errors(9), 86);
  expect_ambiguous("initcheck at N1000 reports 9 reads and prints 1");
  put_report("initcheck", head + read_of(0x1000) + read_of(0x9000) + errors(2), 86);
  EXPECT_THAT(sanitize().sentence, HasSubstr("initcheck finds an error"));
}

TEST_F(SanitizeTest, TenMegabytes) {
  put_sanitizer("yes 'a line of the kernel' | head -c 10000000");
  demand("\"memcheck\"");
  std::string log = head;
  while (log.size() < 10'000'000) log += invalid_write("scale+0x90 in solution.cu:5");
  const int64_t count = static_cast<int64_t>((log.size() - head.size()) /
                                             invalid_write("scale+0x90 in solution.cu:5").size());
  put_report("memcheck", log + errors(count), 86);
  const SanitizeOutcome outcome = sanitize();
  EXPECT_EQ(outcome.refused, VerdictKind::rule_broken);
  EXPECT_THAT(outcome.sentence, HasSubstr(fmt::format("({} times, in scale)", count)));
  EXPECT_LT(outcome.sentence.size(), 500u);
  const std::string kept = text_of(root() / "sanitize.txt");
  EXPECT_THAT(kept, AllOf(HasSubstr("bytes left out"), HasSubstr("ERROR SUMMARY")));
}

// ---- in the pipeline

class SanitizedVerdict : public SanitizeTest {
 protected:
  void SetUp() override {
    SanitizeTest::SetUp();
    if (IsSkipped()) return;
    put_sanitizer();
    demand("\"memcheck\"");
    put_report("memcheck", head + clean);
    request_.result_folder = root() / "result";
    request_.incumbent_folder = root() / "task/start";
    request_.profile_new_best = false;
    measured_as(VerdictKind::faster, true);
  }
  void measured_as(VerdictKind kind, bool confirmed) {
    Verdict verdict;
    verdict.kind = kind;
    verdict.confirmed = confirmed;
    verdict.speedup = {2, 1.9, 2.1};
    verdict.reasons = {"as measured"};
    put(root() / "verdict", dump_json(to_json(verdict)));
  }
  Verdict judge() {
    stages_.clear();
    fs::remove(root() / "words");
    const Result<Verdict> verdict = make_local_executor()->evaluate(
        request_,
        [&](const std::string& stage, const std::string& text, double) -> Status {
          stages_.push_back(stage + ": " + text);
          return {};
        },
        {});
    EXPECT_TRUE(verdict) << (verdict ? "" : verdict.error().what);
    if (verdict) return *verdict;
    Verdict none;
    none.reasons = {"no verdict"};
    return none;
  }
  bool was_run() const { return fs::exists(root() / "words"); }

  std::vector<std::string> stages_;
};

TEST_F(SanitizedVerdict, ACleanNewBestStaysFaster) {
  const Verdict verdict = judge();
  EXPECT_EQ(verdict.kind, VerdictKind::faster);
  EXPECT_EQ(verdict.reasons.front(), "as measured");
  EXPECT_THAT(verdict.reasons, Contains(HasSubstr("compute-sanitizer finds nothing at N1000")));
  EXPECT_THAT(stages_, Contains("sanitize: compute-sanitizer finds nothing at N1000 (memcheck)"));
  EXPECT_GT(verdict.provenance.sanitize_s, 0);
  EXPECT_THAT(text_of(root() / "result/sanitize.txt"), HasSubstr("ERROR SUMMARY: 0"));
}

TEST_F(SanitizedVerdict, AFindingAndAMissingToolKeepItFromPromotion) {
  put_report("memcheck", head + invalid_write("scale+0x90") + errors(1), 86);
  request_.profile_new_best = true;  // not of what is refused
  const Verdict found = judge();
  EXPECT_EQ(found.kind, VerdictKind::rule_broken);
  EXPECT_THAT(found.reasons.front(), HasSubstr("memcheck finds an error"));
  EXPECT_EQ(found.speedup.value, 2);
  EXPECT_FALSE(found.profile);
  EXPECT_THAT(stages_, Contains(HasSubstr("sanitize: compute-sanitizer's memcheck finds")));
  const EnvironmentVariable none("COMPUTE_SANITIZER", "no-such-program");
  EXPECT_EQ(judge().kind, VerdictKind::ambiguous);
}

TEST_F(SanitizedVerdict, OnlyWhatWouldBecomeTheBestIsRun) {
  for (const VerdictKind kind : {VerdictKind::slower, VerdictKind::same, VerdictKind::wrong}) {
    measured_as(kind, false);
    EXPECT_EQ(judge().kind, kind);
    EXPECT_FALSE(was_run());
  }
  measured_as(VerdictKind::faster, true);
  request_.effort = Effort::quick;
  EXPECT_EQ(judge().kind, VerdictKind::faster);
  EXPECT_FALSE(was_run());
}

// A run's first candidate becomes its best whatever it is measured as.
TEST_F(SanitizedVerdict, WithoutAnIncumbentWhateverIsMeasured) {
  request_.incumbent_folder.clear();
  for (const VerdictKind kind : {VerdictKind::slower, VerdictKind::same, VerdictKind::faster}) {
    measured_as(kind, false);
    EXPECT_EQ(judge().kind, kind);
    EXPECT_TRUE(was_run()) << to_string(kind);
  }
  measured_as(VerdictKind::wrong, false);
  judge();
  EXPECT_FALSE(was_run());
}

TEST_F(SanitizedVerdict, ATaskThatDemandsNothing) {
  std::string text = text_of(root() / "task/task.toml");
  put(root() / "task/task.toml", text.substr(0, text.find("[judge]")));
  EXPECT_EQ(judge().kind, VerdictKind::faster);
  EXPECT_FALSE(was_run());
}

}  // namespace
}  // namespace marathon
