#include "app/app.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "app/live.h"
#include "app/report_model.h"
#include "base/file.h"
#include "store/store.h"

namespace marathon {
namespace {

CommandLine parse(std::vector<std::string> words) {
  words.insert(words.begin(), "marathon");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  CommandLine line = parse_command_line(static_cast<int>(argv.size()), argv.data());
  testing::internal::GetCapturedStdout();
  testing::internal::GetCapturedStderr();
  return line;
}

TEST(CommandLine, ReadsARun) {
  const CommandLine line =
      parse({"run", "tasks/x", "--evaluations", "12", "--seed", "7", "--json"});
  EXPECT_FALSE(line.exit);
  EXPECT_EQ(line.command, "run");
  EXPECT_EQ(line.task, "tasks/x");
  EXPECT_EQ(line.evaluations, 12);
  EXPECT_EQ(line.seed, 7u);
  EXPECT_TRUE(line.json);
}

TEST(CommandLine, UsageErrorsExitWithTwo) {
  EXPECT_EQ(parse({}).exit, exit_usage);
  EXPECT_EQ(parse({"fly"}).exit, exit_usage);
  EXPECT_EQ(parse({"run"}).exit, exit_usage);
  EXPECT_EQ(parse({"run", "t", "--evaluations", "-3"}).exit, exit_usage);
  EXPECT_EQ(parse({"run", "t", "--evaluations", "many"}).exit, exit_usage);
  EXPECT_EQ(parse({"status"}).exit, exit_usage);
  EXPECT_EQ(parse({"judge"}).exit, exit_usage);
  EXPECT_EQ(parse({"--help"}).exit, exit_ok);
  EXPECT_EQ(parse({"run", "--help"}).exit, exit_ok);
  EXPECT_EQ(parse({"--version"}).exit, exit_ok);
}

TEST(CommandLine, PacksSeveralCandidatesWithOneNoteEach) {
  const CommandLine line = parse({"judge", "t", "a", "b", "--pack", "out", "--note", "x", "--note",
                                  "y", "--category", "memory"});
  EXPECT_FALSE(line.exit);
  EXPECT_EQ(line.candidates.size(), 2U);
  EXPECT_EQ(line.notes, (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(parse({"judge", "t", "a"}).candidates.front(), "a");
  EXPECT_EQ(parse({"judge", "t", "a", "b"}).exit, exit_usage);
  EXPECT_EQ(parse({"judge", "t", "--pack", "out"}).exit, exit_usage);
  EXPECT_EQ(
      parse({"judge", "t", "a", "b", "c", "--pack", "out", "--note", "x", "--note", "y"}).exit,
      exit_usage);
  EXPECT_EQ(parse({"judge", "t", "a", "--note", "x"}).exit, exit_usage);
  EXPECT_EQ(parse({"judge", "--request", "/", "--result", "r", "--pack", "out"}).exit, exit_usage);
}

TEST(CommandLine, AnAttemptComesFromAFolderOrFromAResult) {
  EXPECT_EQ(parse({"attempt", "r"}).exit, exit_usage);
  EXPECT_EQ(parse({"attempt", "r", "--from", "/"}).exit, exit_usage);  // no note
  EXPECT_FALSE(parse({"attempt", "r", "--from", "/", "--note", "n"}).exit);
  EXPECT_FALSE(parse({"attempt", "r", "--from-result", "/proc/self/stat"}).exit);
  EXPECT_EQ(parse({"attempt", "r", "--from-result", "/nowhere"}).exit, exit_usage);
}

TEST(CommandLine, LastStandsForARun) { EXPECT_EQ(parse({"status", "--last"}).run, "--last"); }

TEST(CommandLine, EveryFaultHasAnExitCode) {
  EXPECT_EQ(exit_code_of(Fault::invalid), exit_usage);
  EXPECT_EQ(exit_code_of(Fault::not_found), exit_usage);
  EXPECT_EQ(exit_code_of(Fault::cancelled), exit_interrupted);
  EXPECT_EQ(exit_code_of(Fault::no_space), exit_environment);
  EXPECT_EQ(exit_code_of(Fault::busy), exit_environment);
}

TEST(Live, NothingThatACandidatePrintedControlsTheTerminal) {
  EXPECT_EQ(printable("a\x1b[2Jb\r\nc\x7f", 100), "a [2Jb  c ");
  EXPECT_EQ(printable_lines("a\n\tb\x1b", 100), "a\n\tb ");
}

TEST(Live, CutsAtWholeCodePoints) { EXPECT_EQ(printable("××××", 3), "××…"); }

TEST(Report, EscapesEveryCharacterThatMeansSomethingInHtml) {
  EXPECT_EQ(escape_html("<a b='c' d=\"e\">&\x1b"),
            "&lt;a b=&#39;c&#39; d=&quot;e&quot;&gt;&amp;\xef\xbf\xbd");
}

// A run with a start, one gain, one failure and hostile text, written through the real log.
class ReportOfARun : public testing::Test {
 protected:
  void SetUp() override {
    Log log = std::move(*Log::create(folder(), "demo-1"));
    RunStarted start;
    start.run = "demo-1";
    start.task_name = "demo";
    start.agent = "search";
    start.start_candidate = "aaaa";
    start.target = {2.0, "twice as fast"};
    append(log, start);
    add(log, 1, "aaaa", "the start", VerdictKind::same, 1.0, true);
    add(log, 2, "bbbb", "<script>alert(1)</script> | `x`", VerdictKind::faster, 2.5, true);
    add(log, 3, "cccc", "breaks", VerdictKind::wrong, 0, false);
    append(log, RunEnded{Ending::goal_met, "lower bound 2.4 of 2.0", 12.0});
  }

  void add(Log& log, int64_t number, const std::string& hash, const std::string& hypothesis,
           VerdictKind kind, double speedup, bool incumbent) {
    CandidateAdded candidate;
    candidate.candidate = hash;
    candidate.hypothesis = hypothesis;
    candidate.category = "tiling";
    append(log, candidate);
    append(log, EvaluationStarted{number, hash, "", "key" + hash, 1});
    EvaluationFinished finished{number, hash, "key" + hash, {}, static_cast<double>(number)};
    finished.verdict.kind = kind;
    finished.verdict.speedup = {speedup, speedup * 0.98, speedup * 1.02};
    finished.verdict.reasons = {"because </td><img src=x onerror=alert(2)>"};
    ShapeResult shape;
    shape.name = "T1";
    shape.set = "listed";
    shape.baseline_us = 100;
    shape.time_us = speedup > 0 ? 100 / speedup : 0;
    shape.floor_us = 10;
    shape.bound_by = "memory";
    shape.speedup = finished.verdict.speedup;
    finished.verdict.shapes = {shape};
    append(log, finished);
    if (incumbent) append(log, IncumbentChanged{hash, "", finished.verdict.speedup, {}, number});
  }

  void append(Log& log, const Payload& payload) { ASSERT_TRUE(log.append(payload)); }
  std::filesystem::path folder() const { return temp_.path(); }

  TempFolder temp_ = std::move(*TempFolder::make("marathon-app-test"));
};

TEST_F(ReportOfARun, ModelComesFromTheLogAlone) {
  const Result<ReportModel> model = read_report_model(folder());
  ASSERT_TRUE(model) << model.error().what;
  EXPECT_EQ(model->run, "demo-1");
  ASSERT_TRUE(model->best);
  EXPECT_EQ(model->best->kind, VerdictKind::faster);
  EXPECT_NEAR(model->floor_speedup, 10, 1e-9);
}

TEST(LiveLine, TellsBestGoalFloorAndWhatIsLeft) {
  State state;
  state.spent.evaluations = 3;
  EXPECT_EQ(progress_text(state, 0), "[3]");
  state.budget.evaluations = 60;
  state.budget.hours = 8;
  state.spent.active_s = 3600;
  state.target.speedup = 3;
  state.incumbent = Incumbent{};
  state.incumbent->speedup = {2.41, 2.35, 2.47};
  EXPECT_EQ(progress_text(state, 5.62),
            "[3/60] best 2.41× (2.35–2.47)  goal 3.00×  floor 5.6×  left 7 h 00 min");
}

TEST(FloorSpeedup, CountsListedShapesOnly) {
  Verdict verdict;
  verdict.shapes.resize(2);
  verdict.shapes[0] = {};
  verdict.shapes[0].set = "listed";
  verdict.shapes[0].baseline_us = 100;
  verdict.shapes[0].floor_us = 20;
  verdict.shapes[1] = verdict.shapes[0];
  verdict.shapes[1].set = "hidden";
  verdict.shapes[1].floor_us = 1;
  EXPECT_NEAR(floor_speedup_of(verdict), 5, 1e-9);
}

TEST_F(ReportOfARun, HtmlIsSelfContainedAndHarmless) {
  const Result<ReportFiles> files = write_report(folder());
  ASSERT_TRUE(files) << files.error().what;
  const std::string html = *read_file(files->html);
  EXPECT_EQ(html.find("<script"), std::string::npos);
  EXPECT_EQ(html.find("<img"), std::string::npos);
  EXPECT_EQ(html.find("http://"), std::string::npos);
  EXPECT_EQ(html.find("https://"), std::string::npos);
  EXPECT_NE(html.find("2.50× (2.45–2.55)"), std::string::npos);
  EXPECT_NE(html.find("lower bound 2.4 of 2.0"), std::string::npos);
  EXPECT_NE(html.find("class='v-wrong'"), std::string::npos);
}

TEST_F(ReportOfARun, MarkdownKeepsItsTables) {
  const Result<ReportFiles> files = write_report(folder());
  ASSERT_TRUE(files);
  const std::string text = *read_file(files->markdown);
  EXPECT_NE(text.find("**goal_met**: 2.50×"), std::string::npos) << text;
  EXPECT_EQ(text.find("<script"), std::string::npos);
  EXPECT_NE(text.find("\\|"), std::string::npos);
}

TEST_F(ReportOfARun, OutMustSayWhichFormat) {
  EXPECT_EQ(write_report(folder(), folder() / "x.pdf").error().fault, Fault::invalid);
  EXPECT_TRUE(write_report(folder(), folder() / "x.md"));
  EXPECT_TRUE(std::filesystem::exists(folder() / "x.md"));
}

}  // namespace
}  // namespace marathon
