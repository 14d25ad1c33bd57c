// Tasks of kind "command", end to end with shell scripts in the real jail.
#include "judge/command.h"

#include <unistd.h>

#include <cmath>

#include "judge/judge_fixture.h"
#include "judge/pipeline.h"

namespace marathon {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* task_text = R"(schema = 1
name = "sizes"
kind = "command"
[files]
editable = ["program.sh", "data.txt"]
frozen = ["check.sh", "measure.sh"]
[command]
build = ["./build.sh"]
check = ["./check.sh"]
measure = ["./measure.sh"]
timeout_s = 20
unit = "bytes"
metric = { regex = 'total: (\d+)' }
repeats = 2
)";

class Command : public testing::Test {
 protected:
  void SetUp() override {
    put(root() / "task/task.toml", task_text);
    put_program(root() / "task/check.sh", "test -s data.txt\n");
    put_program(root() / "task/measure.sh", "echo total: $(wc -c < built.txt)\n");
    // Neither editable nor frozen: the start brings it, a candidate cannot.
    put_program(root() / "task/start/build.sh", ". ./program.sh; cat data.txt > built.txt\n");
    put(root() / "task/start/program.sh", ":\n");
    put(root() / "task/start/data.txt", "0123456789");
    ASSERT_TRUE(copy_tree(root() / "task/start", own()));
    request_.task_folder = root() / "task";
    request_.candidate_folder = own();
    request_.cache_folder = root() / "cache";
    request_.result_folder = root() / "result";
  }
  const fs::path& root() const { return folder_.path(); }
  fs::path own() const { return root() / "own"; }

  void change_task(std::string_view from, std::string_view to) {
    std::string text = text_of(root() / "task/task.toml");
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    put(root() / "task/task.toml", text.replace(at, from.size(), to));
  }

  Verdict judge() {
    const Result<Verdict> verdict = make_local_executor()->evaluate(request_, no_stage, {});
    EXPECT_TRUE(verdict) << (verdict ? "" : verdict.error().what);
    return verdict ? *verdict : Verdict();
  }
  Error judge_error() {
    const Result<Verdict> verdict = make_local_executor()->evaluate(request_, no_stage, {});
    EXPECT_FALSE(verdict);
    return verdict ? Error() : verdict.error();
  }
  static std::string reason(const Verdict& verdict) {
    return verdict.reasons.empty() ? "" : verdict.reasons.front();
  }

  TempFolder folder_ = temp_folder();
  EvaluationRequest request_;
};

TEST_F(Command, TheStartIsAsGoodAsTheBaseline) {
  const Verdict verdict = judge();
  EXPECT_EQ(verdict.kind, VerdictKind::same) << reason(verdict);
  EXPECT_EQ(verdict.metric, 10);
  EXPECT_EQ(verdict.baseline_metric, 10);
  EXPECT_EQ(verdict.metric_unit, "bytes");
  EXPECT_EQ(verdict.speedup.value, 1);
  EXPECT_EQ(verdict.provenance.sandbox, "full");
  EXPECT_EQ(verdict.provenance.candidate_hash.size(), 64u);
}

TEST_F(Command, SmallerIsFasterAndConfirmedWhereNothingVaries) {
  put(own() / "data.txt", "01234");
  const Verdict verdict = judge();
  EXPECT_EQ(verdict.kind, VerdictKind::faster);
  EXPECT_TRUE(verdict.confirmed);
  EXPECT_EQ(verdict.speedup.value, 2);
  EXPECT_EQ(verdict.speedup.low, 2);
}

TEST_F(Command, AQuickLookConfirmsNothing) {
  put(own() / "data.txt", "01234");
  request_.effort = Effort::quick;
  const Verdict verdict = judge();
  EXPECT_EQ(verdict.kind, VerdictKind::faster);
  EXPECT_FALSE(verdict.confirmed);
}

TEST_F(Command, AgainstTheIncumbentNotTheBaseline) {
  ASSERT_TRUE(copy_tree(own(), root() / "best"));
  put(root() / "best/data.txt", "0123");
  put(own() / "data.txt", "01234");
  request_.incumbent_folder = root() / "best";
  const Verdict verdict = judge();
  EXPECT_EQ(verdict.kind, VerdictKind::slower);
  EXPECT_DOUBLE_EQ(verdict.gain.value, 0.8);
  EXPECT_DOUBLE_EQ(verdict.speedup.value, 2);
}

TEST_F(Command, LargerIsBetterWhereTheTaskMaximizes) {
  change_task("unit =", "direction = \"maximize\"\nunit =");
  put(own() / "data.txt", "01234567890123456789");
  const Verdict verdict = judge();
  EXPECT_EQ(verdict.kind, VerdictKind::faster);
  EXPECT_EQ(verdict.speedup.value, 2);
}

// ---- steps that fail

TEST_F(Command, EachStepHasItsVerdict) {
  put(own() / "program.sh", "echo no luck >&2; exit 3\n");
  Verdict verdict = judge();
  EXPECT_EQ(verdict.kind, VerdictKind::build_failed);
  EXPECT_EQ(reason(verdict), "build ended with exit code 3: no luck");
  EXPECT_THAT(verdict.build_output, HasSubstr("no luck"));
  EXPECT_THAT(text_of(root() / "result/build.txt"), HasSubstr("no luck"));

  put(own() / "program.sh", ":\n");
  put(own() / "data.txt", "");
  verdict = judge();
  EXPECT_EQ(verdict.kind, VerdictKind::wrong);
  EXPECT_THAT(reason(verdict), HasSubstr("check ended with exit code 1"));

  put(own() / "data.txt", "x");
  put_program(root() / "task/measure.sh", "echo no figure\n");
  verdict = judge();
  EXPECT_EQ(verdict.kind, VerdictKind::crashed);
  EXPECT_THAT(reason(verdict), HasSubstr("no line of the output of measure matches"));
}

TEST_F(Command, ATimeOut) {
  change_task("timeout_s = 20", "timeout_s = 0.3");
  put(own() / "program.sh", "while :; do :; done\n");
  const Verdict verdict = judge();
  EXPECT_EQ(verdict.kind, VerdictKind::timed_out);
  EXPECT_THAT(reason(verdict), HasSubstr("build took longer than 0.3 s"));
}

TEST_F(Command, ForksWithoutEndEndAndNothingIsLeft) {
  put(own() / "program.sh", fmt::format("while :; do setsid sleep 600.{} & done\n", ::getpid()));
  const Verdict verdict = judge();
  EXPECT_EQ(verdict.kind, VerdictKind::build_failed) << reason(verdict);
  EXPECT_THAT(reason(verdict), HasSubstr("too many processes"));
  const std::string sleeper = fmt::format("600.{}", ::getpid());
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc")) {
    EXPECT_THAT(read_file(entry.path() / "cmdline").value_or(""), Not(HasSubstr(sleeper)));
  }
}

TEST_F(Command, TheTextOfTheTaskForbids) {
  change_task("[command]", "[rules]\nforbidden_text = [\"curl\"]\n[command]");
  put(own() / "program.sh", ":\ncurl somewhere\n");
  const Verdict verdict = judge();
  EXPECT_EQ(verdict.kind, VerdictKind::rule_broken);
  EXPECT_THAT(reason(verdict), HasSubstr("program.sh:2: 'curl' is forbidden"));
}

TEST_F(Command, ABaselineThatFailsIsTheTasksFault) {
  put(root() / "task/start/program.sh", "exit 1\n");
  const Error error = judge_error();
  EXPECT_EQ(error.fault, Fault::invalid);
  EXPECT_THAT(error.what, HasSubstr("the baseline fails (build_failed)"));
}

// ---- graders

TEST_F(Command, AGraderThatTheCandidateBrings) {
  put_program(own() / "measure.sh", "echo total: 1\n");
  const Verdict verdict = judge();
  EXPECT_EQ(verdict.kind, VerdictKind::rule_broken);
  EXPECT_THAT(reason(verdict), HasSubstr("'measure.sh' grades the candidate"));
}

TEST_F(Command, AFileBesideTheEditableOnesIsNotUsed) {
  put_program(own() / "build.sh", "echo x > built.txt\n");
  const Verdict verdict = judge();
  EXPECT_EQ(verdict.kind, VerdictKind::same);
  EXPECT_EQ(verdict.metric, 10);
  EXPECT_THAT(verdict.reasons.back(), HasSubstr("the task's own was used: build.sh"));
}

TEST_F(Command, AGraderThatIsChangedWhileItRuns) {
  put(own() / "program.sh", "echo 'echo total: 1' > measure.sh\n");
  Verdict verdict = judge();
  EXPECT_EQ(verdict.kind, VerdictKind::rule_broken);
  EXPECT_THAT(reason(verdict), HasSubstr("'measure.sh' was touched while './build.sh' ran"));
  // Changed and put back, with its old time: what the kernel notes of a change cannot be set.
  put(own() / "program.sh",
      "cp -p check.sh kept; echo exit 0 > check.sh; cat kept > check.sh; touch -r kept check.sh\n");
  verdict = judge();
  EXPECT_EQ(verdict.kind, VerdictKind::rule_broken);
  EXPECT_THAT(reason(verdict), HasSubstr("'check.sh' was touched"));
}

// The frozen file's folder becomes a link to a folder of ours, into which the next step would
// write.
TEST_F(Command, AGradersFolderThatBecomesALinkLeadsNowhere) {
  change_task("\"check.sh\", ", "\"check.sh\", \"lib/*.sh\", ");
  put(root() / "task/lib/a.sh", "frozen");
  put(root() / "outside/a.sh", "mine");
  put(own() / "program.sh",
      fmt::format("rm -rf lib; ln -s {} lib\n", (root() / "outside").string()));
  const Verdict verdict = judge();
  EXPECT_EQ(verdict.kind, VerdictKind::rule_broken);
  EXPECT_EQ(text_of(root() / "outside/a.sh"), "mine");
}

TEST(ClearPlace, LinksAreTakenAwayNotFollowed) {
  const TempFolder folder = temp_folder();
  const fs::path work = folder.path() / "work", outside = folder.path() / "outside";
  put(outside / "b/a.sh", "mine");
  ASSERT_TRUE(make_folders(work));
  fs::create_directory_symlink(outside, work / "lib");
  ASSERT_TRUE(clear_place(work, "lib/b/a.sh"));
  put(work / "lib/b/a.sh", "frozen");
  EXPECT_EQ(text_of(outside / "b/a.sh"), "mine");
  fs::remove(work / "lib/b/a.sh");
  fs::create_symlink(outside / "b/a.sh", work / "lib/b/a.sh");
  ASSERT_TRUE(clear_place(work, "lib/b/a.sh"));
  EXPECT_EQ(text_of(outside / "b/a.sh"), "mine");
  EXPECT_FALSE(clear_place(work, "../outside/b/a.sh"));
}

// ---- what is left from step to step

TEST_F(Command, WhatTheCheckLeavesIsNotMeasured) {
  // A program that replaces itself by a small one when it is checked.
  put_program(root() / "task/check.sh", ". ./program.sh\n");
  put(own() / "program.sh", "test -f built.txt && echo > built.txt; :\n");
  const Verdict verdict = judge();
  EXPECT_EQ(verdict.kind, VerdictKind::same) << reason(verdict);
  EXPECT_EQ(verdict.metric, 10);
}

TEST_F(Command, OneMeasurementLeavesNothingForTheNext) {
  // In its workspace, in its temp folder and in its home.
  put_program(
      root() / "task/measure.sh",
      "if [ -e seen ] || [ -e $TMPDIR/seen ] || [ -e $HOME/seen ]; then echo total: 1; else "
      "touch seen $TMPDIR/seen $HOME/seen && echo total: 10; fi\n");
  const Verdict verdict = judge();
  EXPECT_EQ(verdict.kind, VerdictKind::same) << reason(verdict);
  EXPECT_EQ(verdict.metric, 10);
  EXPECT_EQ(verdict.speedup.low, 1);
}

TEST_F(Command, LinksAndTimesOfTheBuildSurvive) {
  put(own() / "program.sh", "ln -s data.txt link; touch -d 2001-02-03 old; chmod 700 old\n");
  put_program(
      root() / "task/measure.sh",
      "[ $(readlink link) = data.txt ] && [ $(date -r old +%Y) = 2001 ] && [ -x old ] && echo "
      "total: 10\n");
  put(root() / "task/start/program.sh", text_of(own() / "program.sh"));
  EXPECT_EQ(judge().kind, VerdictKind::same);
}

TEST_F(Command, TheBaselineIsMeasuredOnceAndThenKnown) {
  put_program(root() / "task/measure.sh", "echo total: $(wc -c < built.txt)\n");
  judge();
  const auto known = [&] {
    return std::distance(fs::directory_iterator(root() / "cache/metrics"),
                         fs::directory_iterator());
  };
  EXPECT_EQ(known(), 1);
  // A file that was damaged is measured anew.
  const fs::path file = fs::directory_iterator(root() / "cache/metrics")->path();
  for (const char* damaged : {"", "{}", "[]", "[\"a\"]"}) {
    put(file, damaged);
    EXPECT_EQ(judge().baseline_metric, 10);
  }
  put(file, "[40, 40]");
  EXPECT_EQ(judge().baseline_metric, 40);
  EXPECT_EQ(known(), 1);
}

// ---- the jail

TEST_F(Command, NothingOutsideOfTheWorkspace) {
  put(root() / "secret", "42");
  put(own() / "program.sh",
      fmt::format(
          "cat {0}/secret && exit 9; echo x > {0}/new && exit 9; cat /etc/shadow && exit 9; :\n",
          root().string()));
  const Verdict verdict = judge();
  EXPECT_EQ(verdict.kind, VerdictKind::same) << reason(verdict);
  EXPECT_FALSE(fs::exists(root() / "new"));
}

TEST_F(Command, ItsEnvironmentHoldsNoneOfOurs) {
  const EnvironmentVariable key("MARATHON_TEST_KEY", "secret");
  put(own() / "program.sh", "[ -z \"$MARATHON_TEST_KEY\" ]\n");
  EXPECT_EQ(judge().kind, VerdictKind::same);
}

TEST_F(Command, ParametersReachTheCommands) {
  change_task("\"data.txt\"]", "\"data.txt\", \"params.toml\"]");
  put(root() / "task/task.toml",
      text_of(root() / "task/task.toml") +
          "[[parameter]]\nname = \"SIZE\"\nvalues = [3, 10]\nstart = 10\n"
          "[[parameter]]\nname = \"F\"\nflags = [\"\", \"-O3 -g\"]\nstart = 0\n");
  put_program(root() / "task/measure.sh",
              "[ \"$MARATHON_BUILD_WORDS\" = '-O3 -g' ] && echo second; echo total: $SIZE\n");
  put(root() / "task/start/params.toml", "SIZE = 10\nF = 0\n");
  put(own() / "params.toml", "SIZE = 3\nF = 1\n");
  Verdict verdict = judge();
  EXPECT_EQ(verdict.kind, VerdictKind::faster) << reason(verdict);
  EXPECT_EQ(verdict.metric, 3);
  put(own() / "params.toml", "SIZE = 4\nF = 1\n");
  EXPECT_EQ(judge().kind, VerdictKind::rule_broken);
  fs::remove(own() / "params.toml");
  EXPECT_THAT(reason(judge()), HasSubstr("params.toml is missing"));
}

TEST_F(Command, AStopEndsIt) {
  std::stop_source stop;
  stop.request_stop();
  const Result<Verdict> verdict =
      make_local_executor()->evaluate(request_, no_stage, stop.get_token());
  ASSERT_FALSE(verdict);
  EXPECT_EQ(verdict.error().fault, Fault::cancelled);
}

// ---- figures that vary

TEST_F(Command, InTurnWithTheBaseline) {
  change_task("repeats = 2", "repeats = 3\ninterleave = true");
  put(own() / "data.txt", "01234");
  const Verdict verdict = judge();
  EXPECT_EQ(verdict.kind, VerdictKind::faster) << reason(verdict);
  EXPECT_EQ(verdict.speedup.value, 2);
  EXPECT_FALSE(fs::exists(root() / "cache/metrics"));  // times of another day are no baseline
}

TEST_F(Command, AGainThatVariesIsMeasuredAgain) {
  put_program(
      root() / "task/measure.sh",
      "echo total: $(( $(wc -c < built.txt) * 1000 + $(date +%N | sed 's/^0*//') % 10 ))\n");
  put(own() / "data.txt", "01234");
  int64_t checks = 0;
  const Result<Verdict> verdict =
      make_local_executor()->evaluate(request_,
                                      [&](const std::string& stage, const std::string&, double) {
                                        checks += stage == "check";
                                        return Status();
                                      },
                                      {});
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->kind, VerdictKind::faster);
  EXPECT_TRUE(verdict->confirmed);
  EXPECT_EQ(checks, 2);
}

// ---- the figure

CommandSpec by_regex(const char* expression) {
  CommandSpec command;
  command.metric_regex = expression;
  return command;
}

TEST(Metric, ByRegularExpression) {
  const CommandSpec command = by_regex(R"(total: ([-\d.e]+))");
  EXPECT_EQ(*metric_in(command, "noise\ntotal: 12.5 bytes\n"), 12.5);
  EXPECT_EQ(*metric_in(command, "total: 1e-3"), 1e-3);
  EXPECT_EQ(*metric_in(command, "total: 7\ntotal: 7.0\n"), 7);
  EXPECT_THAT(metric_in(command, "total: 7\ntotal: 8\n").error().what,
              HasSubstr("two figures, 7 and 8"));
  EXPECT_THAT(metric_in(command, "total: 1.2.3\n").error().what, HasSubstr("is not a number"));
  EXPECT_FALSE(metric_in(command, ""));
  // A line of megabytes is searched at its beginning only, without an end to the stack.
  EXPECT_EQ(*metric_in(command, std::string(5'000'000, 'x') + "\ntotal: 3\n"), 3);
}

TEST(Metric, ByPointer) {
  CommandSpec command;
  command.metric_json = "/sizes/0/bytes";
  EXPECT_EQ(*metric_in(command, R"({"sizes": [{"bytes": 12}]})"), 12);
  for (const char* text : {"", "no", "{}", R"({"sizes": []})", R"({"sizes": [{"bytes": "12"}]})"})
    EXPECT_FALSE(metric_in(command, text)) << text;
}

TEST(Gain, ZeroIsHandled) {
  CommandSpec command;
  EXPECT_EQ(gain_of(command, {0, 0}, {0, 0}, false).value, 1);
  EXPECT_EQ(gain_of(command, {5, 5}, {0, 0}, false).low, 1e9);
  EXPECT_EQ(gain_of(command, {0, 0}, {5, 5}, false).high, 0);
  command.direction = Direction::maximize;
  EXPECT_EQ(gain_of(command, {0, 0}, {5, 5}, false).low, 1e9);
  EXPECT_EQ(gain_of(command, {5, 5}, {0, 0}, false).high, 0);
}

TEST(Gain, PairsCancelDrift) {
  // Twice as fast in every pair while the machine slows down by ten.
  const std::vector<double> other = {100, 200, 400, 1000}, own = {50, 100, 200, 500};
  const Interval paired = gain_of({}, other, own, true), pooled = gain_of({}, other, own, false);
  EXPECT_NEAR(paired.value, 2, 1e-12);
  EXPECT_NEAR(paired.low, 2, 1e-12);
  EXPECT_LT(pooled.low, 1);
}

}  // namespace
}  // namespace marathon
