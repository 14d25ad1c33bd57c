// What an agent is told, call by call.
#include <nlohmann/json.hpp>

#include "run/run_fixture.h"

namespace marathon {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class ToolsTest : public RunTest {
 protected:
  // Makes the calls, one a turn; what each was answered.
  std::vector<ToolFinished> call(const ListProvider::Calls& calls) {
    std::vector<ListProvider::Calls> turns;
    for (const auto& each : calls) turns.push_back({each});
    outcome_ = start(std::move(turns));
    return all_of<ToolFinished>();
  }
  ToolFinished call(const std::string& name, const std::string& arguments) {
    return call(ListProvider::Calls{{name, arguments}}).front();
  }
  std::string content(const std::string& path) const {
    return must(read_file(folder() / "workspace" / path));
  }

  RunOutcome outcome_;
};

TEST_F(ToolsTest, WhatMakesNoSenseIsAnsweredAndTheRunGoesOn) {
  const std::vector<ToolFinished> done =
      call({{"nonsense", "{}"},
            {"read_file", "{\"path\": "},
            {"read_file", "[1]"},
            {"read_file", "{}"},
            {"read_file", R"({"path": 3})"},
            {"read_file", R"({"path": "a", "pth": "b"})"},
            {"read_file", R"({"path": "none.cc"})"},
            {"evaluate", R"({"hypothesis": "h"})"},
            {"evaluate", R"({"hypothesis": "", "category": "c"})"},
            {"read_file", "artifact:" + std::string(64, 'a')}});
  const std::vector<std::string> hints = {"there are:\n  evaluate {", "line 1",
                                          "one JSON object",          "\"path\" is missing",
                                          "\"path\" must be text",    "no argument \"pth\"",
                                          "list_files shows",         "\"category\" is missing",
                                          "what should get better",   "cannot be read"};
  ASSERT_EQ(done.size(), hints.size());
  for (size_t i = 0; i < hints.size(); ++i) {
    EXPECT_FALSE(done[i].ok);
    EXPECT_THAT(done[i].result, HasSubstr(hints[i]));
  }
  EXPECT_EQ(outcome_.state.spent.evaluations, 1);
}

TEST_F(ToolsTest, AConfigurationIsCheckedBeforeItCostsAnything) {
  const std::vector<ToolFinished> done =
      call({{"evaluate", evaluate_call(R"({"A": 3})")},
            {"evaluate", evaluate_call(R"({"NONE": 1})")},
            {"evaluate", evaluate_call(R"({"A": "4"})")},
            {"evaluate", evaluate_call(R"({"A": 8, "BB": 2, "CCC": 3})")},
            {"write_file", R"({"path": "params.toml", "content": "A = 1\n"})"},
            {"evaluate", evaluate_call()}});
  EXPECT_THAT(done[0].result, HasSubstr("not one of its values"));
  EXPECT_THAT(done[1].result, HasSubstr("no parameter \"NONE\""));
  EXPECT_THAT(done[2].result, HasSubstr("whole number"));
  EXPECT_THAT(done[3].result, HasSubstr("A != 8"));
  EXPECT_THAT(done[5].result, HasSubstr("parameters are missing"));
  EXPECT_EQ(executor_.requests.size(), 1U);
}

TEST_F(ToolsTest, APartOfAConfigurationChangesWhatTheWorkspaceHolds) {
  call({{"evaluate", evaluate_call(R"({"A": 4})")}, {"evaluate", evaluate_call(R"({"BB": 3})")}});
  EXPECT_EQ(content("params.toml"), "A = 4\nBB = 3\nCCC = 0\n");
  EXPECT_EQ(outcome_.state.attempts.back().configuration,
            (Configuration{{"A", 4}, {"BB", 3}, {"CCC", 0}}));
}

TEST_F(ToolsTest, NothingOutsideOfTheEditableFilesIsWritten) {
  for (const std::string path : {"frozen.h", "../x", "/etc/x", ".git/config", "readme.txt",
                                 "extra/../solution.cc", "extra/deep/x.h", ""}) {
    const Json arguments = {{"path", path}, {"content", "x"}};
    must(remove_tree(home()));
    const ToolFinished done = call("write_file", dump_json(arguments));
    EXPECT_FALSE(done.ok) << path;
    EXPECT_THAT(done.result, HasSubstr("editable: solution.cc, params.toml, extra/*.h"));
    EXPECT_TRUE(done.written.empty());
  }
}

TEST_F(ToolsTest, SecretsAreNotReadable) {
  must(write_file(task() / "task.toml",
                  std::string(tiny_task).replace(tiny_task.find("\"frozen.h\""), 10,
                                                 "\"frozen.h\", \"task.toml\"")));
  const std::vector<ToolFinished> done =
      call({{"read_file", R"({"path": "task.toml"})"},
            {"read_file", R"({"path": "oracle.cc"})"},
            {"read_file", R"({"path": "baseline/../oracle.cc"})"},
            {"read_file", R"({"path": "frozen.h"})"},
            {"read_file", R"({"path": "baseline/solution.cc"})"},
            {"list_files", "{}"}});
  for (size_t i = 0; i < 3; ++i) EXPECT_FALSE(done[i].ok) << done[i].result;
  EXPECT_EQ(done[3].result, "// frozen\n");
  EXPECT_EQ(done[4].result, "// the baseline\n");
  EXPECT_THAT(done[5].result, AllOf(HasSubstr("extra/more.h"), HasSubstr("baseline/solution.cc"),
                                    Not(HasSubstr("oracle")), Not(HasSubstr("task.toml"))));
}

TEST_F(ToolsTest, AHiddenBaselineStaysHidden) {
  must(write_file(task() / "task.toml",
                  std::string(tiny_task).replace(tiny_task.find("[build]"), 7,
                                                 "baseline_visible = false\n[build]")));
  EXPECT_FALSE(call("read_file", R"({"path": "baseline/solution.cc"})").ok);
}

TEST_F(ToolsTest, ALongFileIsReadPageByPage) {
  std::string text;
  for (int i = 1; i <= 3000; ++i) text += fmt::format("line {} \"quoted\"\n", i);
  must(write_file(task() / "start" / "extra" / "more.h", text));
  std::string all;
  int64_t from = 1;
  while (from > 0) {
    must(remove_tree(home()));
    const Json arguments = {{"path", "extra/more.h"}, {"from_line", from}};
    const ToolFinished page = call("read_file", dump_json(arguments));
    ASSERT_TRUE(page.ok);
    const size_t more = page.result.find("\n… the file goes on");
    all += page.result.substr(0, more);
    const size_t colon = page.result.rfind(": ");
    from = more == std::string::npos ? 0 : std::stoll(page.result.substr(colon + 2));
  }
  EXPECT_EQ(all, text);
}

TEST_F(ToolsTest, AnEditReplacesOneExactPlace) {
  const std::vector<ToolFinished> done =
      call({{"edit_file", R"({"path": "solution.cc", "old": "int", "new": "long"})"},
            {"edit_file", R"({"path": "solution.cc", "old": "int three", "new": "x"})"},
            {"edit_file", R"({"path": "solution.cc", "old": "", "new": "x"})"},
            {"edit_file", R"({"path": "solution.cc", "old": "int one;", "new": "long one;"})"},
            {"edit_file", R"({"path": "frozen.h", "old": "frozen", "new": "x"})"}});
  EXPECT_THAT(done[0].result, HasSubstr("at lines 2, 3"));
  EXPECT_THAT(done[1].result, HasSubstr("copy the text exactly"));
  EXPECT_FALSE(done[2].ok);
  EXPECT_TRUE(done[3].ok);
  EXPECT_FALSE(done[4].ok);
  EXPECT_EQ(content("solution.cc"), "// speed 0.8\nlong one;\nint two;\n");
}

TEST_F(ToolsTest, TheVerdictIsToldWithoutTheHiddenShapes) {
  const std::vector<ToolFinished> done =
      call({{"write_file", R"({"path": "solution.cc", "content": "wrong"})"},
            {"evaluate", evaluate_call()},
            {"history", R"({"verdict": "wrong"})"}});
  EXPECT_THAT(done[1].result, AllOf(HasSubstr("wrong on a hidden shape"),
                                    Not(HasSubstr("secret-77")), Not(HasSubstr("rows"))));
  EXPECT_THAT(done[2].result, AllOf(HasSubstr("#2 wrong"), HasSubstr("wrong on a hidden shape"),
                                    Not(HasSubstr("secret-77")), Not(HasSubstr("#1 "))));
}

TEST_F(ToolsTest, AnAnswerHasTheFiguresThatCount) {
  const Json answer =
      must(parse_json(call("evaluate", evaluate_call(R"({"A": 4, "BB": 2, "CCC": 1})")).result));
  EXPECT_EQ(answer["verdict"], "faster");
  EXPECT_EQ(answer["attempt"], 2);
  EXPECT_EQ(answer["new_best"], true);
  EXPECT_LT(answer["speedup"]["low"], answer["speedup"]["high"]);
  EXPECT_EQ(answer["evaluations_left"], 10);
  EXPECT_EQ(answer["goal"]["met"], false);
  EXPECT_EQ(answer["shapes"][0]["name"], "big");
}

TEST_F(ToolsTest, LongTextsAreCutAndLieBesideTheLog) {
  executor_.long_text_bytes = 300'000;
  executor_.samples = 4000;
  const std::string source(200'000, '"');
  const Json arguments = {{"path", "solution.cc"}, {"content", "unbuildable " + source}};
  const std::vector<ToolFinished> done =
      call({{"write_file", dump_json(arguments)}, {"evaluate", evaluate_call()}});
  EXPECT_TRUE(done[0].ok) << done[0].result;
  EXPECT_EQ(content("solution.cc").size(), source.size() + 12);
  EXPECT_TRUE(must(parse_json(done[1].result)).contains("build_output"));
  const std::vector<EvaluationFinished> verdicts = all_of<EvaluationFinished>();
  const Artifacts artifacts = must(Artifacts::open(folder()));
  EXPECT_EQ(must(artifacts.get(verdicts[1].verdict.build_output_artifact)).size(), 300'000U);
  EXPECT_THAT(must(artifacts.get(verdicts[0].verdict.whole_artifact)), HasSubstr("100.5,100.5"));
  EXPECT_FALSE(verdicts[0].verdict.shapes.empty());
  expect_clean();
}

TEST_F(ToolsTest, WhatASanitizerSaidIsKept) {
  const Json arguments = {{"path", "solution.cc"}, {"content", "speed 2 sanitized"}};
  call({{"evaluate", evaluate_call()},
        {"write_file", dump_json(arguments)},
        {"evaluate", evaluate_call()}});
  const std::vector<EvaluationFinished> verdicts = all_of<EvaluationFinished>();
  ASSERT_EQ(verdicts.size(), 2U);
  EXPECT_EQ(verdicts[0].verdict.sanitize_artifact, "");
  EXPECT_EQ(must(must(Artifacts::open(folder())).get(verdicts[1].verdict.sanitize_artifact)),
            "what a sanitizer said");
}

TEST_F(ToolsTest, BestBringsTheFilesBack) {
  const std::vector<ToolFinished> done =
      call({{"evaluate", evaluate_call(R"({"A": 4, "BB": 2, "CCC": 1})")},
            {"write_file", R"({"path": "solution.cc", "content": "wrong"})"},
            {"write_file", R"({"path": "extra/new.h", "content": "x"})"},
            {"best", "{}"}});
  EXPECT_THAT(done[3].result, HasSubstr("attempt #2; 2 files changed"));
  EXPECT_EQ(content("solution.cc"), "// speed 0.8\nint one;\nint two;\n");
  EXPECT_EQ(content("params.toml"), "A = 4\nBB = 2\nCCC = 1\n");
  EXPECT_FALSE(std::filesystem::exists(folder() / "workspace" / "extra" / "new.h"));
  EXPECT_EQ(outcome_.state.workspace.size(), 3U);
}

TEST_F(ToolsTest, AClaimCountsOnlyWithEvidence) {
  const std::vector<ToolFinished> done =
      call({{"finish", R"({"text": "done"})"},
            {"write_file", R"({"path": "solution.cc", "content": "speed 5"})"},
            {"evaluate", evaluate_call()},
            {"finish", R"({"text": "done"})"},
            {"note", R"({"text": "not reached"})"}});
  ASSERT_EQ(done.size(), 4U);
  EXPECT_FALSE(done[0].ok);
  EXPECT_THAT(done[0].result,
              AllOf(HasSubstr("asks for 1.20×"), HasSubstr("11 of 12 evaluations")));
  EXPECT_TRUE(done[3].ok);
  EXPECT_EQ(outcome_.state.ending->ending, Ending::goal_met);
}

TEST_F(ToolsTest, TheThirdIdenticalAnswerSaysSo) {
  const std::vector<ToolFinished> done = call({{"list_files", "{}"},
                                               {"history", "{}"},
                                               {"list_files", "{}"},
                                               {"history", "{}"},
                                               {"list_files", "{}"},
                                               {"read_file", R"({"path": "frozen.h"})"}});
  EXPECT_THAT(done[2].result, Not(HasSubstr("Do something else")));
  EXPECT_THAT(done[4].result, HasSubstr("3 times of late"));
  EXPECT_THAT(done[5].result, Not(HasSubstr("Do something else")));
}

TEST_F(ToolsTest, CallsWithoutAnIdOrWithOneTwiceAreAllAnswered) {
  class Careless : public Provider {
   public:
    Result<Turn> next(const Context& context, std::stop_token) override {
      Turn turn;
      turn.exhausted = context.state.spent.turns > 0;
      turn.text = std::string(50'000, '\x01');
      if (!turn.exhausted) {
        for (const char* id : {"", "", "a", "a"}) turn.calls.push_back({id, "history", "{}"});
        for (int i = 0; i < 50; ++i)
          turn.calls.push_back(
              {"b" + std::to_string(i), "note", R"({"text": ")" + std::string(900, 'n') + "\"}"});
      }
      return turn;
    }
    std::string name() const override { return "careless"; }
    std::string detail() const override { return ""; }
  } careless;
  RunOptions with = options();
  with.provider = &careless;
  const RunOutcome outcome = must(start_run(with, {}));
  EXPECT_EQ(outcome.state.spent.tool_calls, 32);
  EXPECT_EQ(outcome.state.notes.size(), 28U);
  EXPECT_EQ(outcome.state.unknown_events, 0);
}

TEST_F(ToolsTest, AnAgentThatNeverActsEndsBlocked) {
  class Talker : public Provider {
   public:
    Result<Turn> next(const Context&, std::stop_token) override {
      Turn turn;
      turn.text = "let me think";
      return turn;
    }
    std::string name() const override { return "talker"; }
    std::string detail() const override { return ""; }
  } talker;
  RunOptions with = options();
  with.provider = &talker;
  const RunOutcome outcome = must(start_run(with, {}));
  EXPECT_EQ(outcome.state.ending->ending, Ending::blocked);
  EXPECT_EQ(outcome.state.spent.turns, 10);
}

}  // namespace marathon
