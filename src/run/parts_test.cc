// The parts of the room that need no run: payloads that fit, commits, calls that repeat.
#include <nlohmann/json.hpp>

#include "run/candidates.h"
#include "run/payloads.h"
#include "run/repeats.h"
#include "run/run_fixture.h"

namespace marathon {

namespace fs = std::filesystem;
using testing::HasSubstr;

namespace {

size_t as_json(const std::string& text) { return dump_json(Json(text)).size() - 2; }

}  // namespace

TEST(CutForJson, LeavesWhatFits) {
  EXPECT_EQ(cut_for_json("", 10), "");
  EXPECT_EQ(cut_for_json("0123456789", 10), "0123456789");
  EXPECT_EQ(cut_for_json("µ", 10), "µ");
}

TEST(CutForJson, CountsWhatEscapingAddsAndNeverCutsACodePoint) {
  for (const std::string piece :
       {"a", "\"", "\\", "\n", "\x01", "µ", "漢", "😀", "\xff", "a\x80µ\""}) {
    std::string text;
    while (text.size() < 3000) text += piece;
    for (const size_t limit : {20U, 21U, 22U, 23U, 24U, 500U, 501U}) {
      const std::string cut = cut_for_json(text, limit);
      EXPECT_LE(as_json(cut), limit) << piece;
      EXPECT_TRUE(cut.ends_with("…"));
      EXPECT_TRUE(text.starts_with(cut.substr(0, cut.size() - std::string("…").size())));
      EXPECT_TRUE(piece != "漢" || cut.size() % 3 == 0) << "cut inside of a code point";
    }
  }
}

class PartsTest : public RunTest {
 protected:
  PartsTest() { must(make_folders(home())); }
  Recorder recorder() {
    return Recorder(must(Log::create(home(), "r")), must(Artifacts::open(home())), nullptr, nullptr,
                    {});
  }
};

TEST_F(PartsTest, AVerdictOfAnySizeFitsIntoAnEvent) {
  Recorder keeper = recorder();
  must(make_folders(temp_.path() / "results"));
  for (const size_t shapes : {0U, 1U, 8U, 200U}) {
    for (const size_t samples : {0U, 30U, 5000U}) {
      for (const std::string& text :
           {std::string(), std::string(100'000, '"'), std::string(5000, '\xff')}) {
        EvaluationFinished finished;
        finished.candidate = finished.key = std::string(64, 'a');
        Verdict& verdict = finished.verdict;
        verdict.kind = VerdictKind::wrong;
        verdict.build_output = text;
        verdict.reasons = std::vector<std::string>(20, text);
        verdict.profile = ProfileSummary{"perf", {}, std::vector<std::string>(20, text)};
        for (size_t i = 0; i < 300; ++i)
          verdict.profile->figures[fmt::format("figure {}", i)] = 0.123;
        for (size_t i = 0; i < shapes; ++i) {
          ShapeResult shape;
          shape.name = fmt::format("shape {}", i);
          shape.set = i % 2 ? "listed" : "stress";
          shape.reason = i % 3 ? "" : text;
          shape.outputs = std::vector<OutputError>(5, {"y", 0.1, 0.2, 0.3, 0.4, "rows"});
          shape.samples.candidate_ns = std::vector<double>(samples, 1.5);
          verdict.shapes.push_back(shape);
        }
        finished.verdict = must(fit_verdict(verdict, temp_.path() / "results", keeper));
        EXPECT_LE(encode_payload(finished).size(), static_cast<size_t>(max_inline_bytes));
        EXPECT_EQ(finished.verdict.kind, VerdictKind::wrong);
      }
    }
  }
}

TEST_F(PartsTest, ASmallVerdictStaysWhole) {
  Recorder keeper = recorder();
  Verdict verdict;
  verdict.reasons = {"one"};
  verdict.shapes.resize(2);
  verdict.shapes[0].samples.candidate_ns = std::vector<double>(60, 1.5);
  const Verdict fitted = must(fit_verdict(verdict, temp_.path() / "none", keeper));
  EXPECT_EQ(dump_json(to_json(fitted)), dump_json(to_json(verdict)));
}

TEST_F(PartsTest, LongArgumentsComeBackAsTheyWere) {
  Recorder keeper = recorder();
  Turn turn;
  const std::string text = "{\"content\": \"" + std::string(100'000, 'x') + "\"}";
  turn.calls = {{"1", "write_file", text}, {"2", "history", "{}"}, {"3", "note", ""}};
  const TurnFinished fitted = must(fit_turn(turn, 1, keeper));
  EXPECT_LE(encode_payload(fitted).size(), static_cast<size_t>(max_inline_bytes));
  EXPECT_TRUE(are_beside(fitted.calls[0]));
  EXPECT_EQ(must(arguments_of(fitted.calls[0], keeper.artifacts())), text);
  EXPECT_EQ(must(arguments_of(fitted.calls[1], keeper.artifacts())), "{}");
  EXPECT_EQ(must(arguments_of(fitted.calls[2], keeper.artifacts())), "{}");
}

TEST_F(PartsTest, TheSamePartsGiveTheSameCommitAnywhere) {
  Recorder keeper = recorder();
  CommitParts parts;
  parts.files = {{"a \"b\"\\c.cc", must(keeper.keep("one\n"))},
                 {"deep/er/run.sh", must(keeper.keep("#!/bin/sh\n"))},
                 {"new\nline", must(keeper.keep(""))},
                 {"ümlaut", must(keeper.keep(std::string("\0binary", 7)))}};
  parts.candidate = std::string(64, 'c');
  parts.number = 7;
  parts.message = "#7 c: a hypothesis\nwith two lines and \xff\n";
  const Workspace first(temp_.path() / "first"), second(temp_.path() / "second");
  must(first.create());
  must(second.create());
  const std::string id = must(first.commit(parts, keeper.artifacts()));
  EXPECT_EQ(must(second.commit(parts, keeper.artifacts())), id);
  EXPECT_EQ(must(first.commit(parts, keeper.artifacts())), id);  // again, as after a crash
  CommitParts child = parts;
  child.parent_commit = id;
  child.number = 8;
  child.candidate = std::string(64, 'd');
  const std::string child_id = must(first.commit(child, keeper.artifacts()));
  EXPECT_NE(child_id, id);
  EXPECT_EQ(must(first.commit(child, keeper.artifacts())), child_id);
  must(first.set_best(child_id));
  EXPECT_THAT(must(second.missing({id, child_id})), testing::ElementsAre(child_id));
  EXPECT_FALSE(second.set_best(child_id));
}

TEST_F(PartsTest, FilesAreWrittenWithTheirRights) {
  Recorder keeper = recorder();
  const fs::path out = temp_.path() / "out";
  must(write_files(
      {{"run.sh", must(keeper.keep("#!/bin/sh\n"))}, {"a/b.cc", must(keeper.keep("int x;"))}},
      keeper.artifacts(), out));
  EXPECT_EQ(fs::status(out / "run.sh").permissions() & fs::perms::owner_exec,
            fs::perms::owner_exec);
  EXPECT_EQ(fs::status(out / "a/b.cc").permissions() & fs::perms::owner_exec, fs::perms::none);
  EXPECT_FALSE(write_files({{"../x", must(keeper.keep("x"))}}, keeper.artifacts(), out));
}

TEST_F(PartsTest, HashesOrderPathsAsFoldersDo) {
  Recorder keeper = recorder();
  const fs::path out = temp_.path() / "out";
  const FileHashes files = {{"a.b", must(keeper.keep("1"))},
                            {"a/b", must(keeper.keep("2"))},
                            {"a-b", must(keeper.keep("3"))}};
  must(write_files(files, keeper.artifacts(), out));
  Task task;
  task.files.editable = {"*", "*/*"};
  EXPECT_EQ(must(hash_of(files, keeper.artifacts())), must(candidate_hash(task, out)));
}

TEST_F(PartsTest, AnInvalidEventIsRefusedAtOnce) {
  Recorder keeper = recorder();
  const Result<Event> event = keeper.record(NoteAdded{std::string(20'000, 'x'), "agent"});
  ASSERT_FALSE(event);
  EXPECT_EQ(event.error().fault, Fault::invalid);
}

TEST(Repeats, CountsTheSameCallWithTheSameAnswerAlsoAcrossAResume) {
  const ToolCall call{"1", "history", "{}"}, other{"2", "history", R"({"category": "c"})"};
  Repeats repeats;
  EXPECT_EQ(repeats.answer(call, "r"), "r");
  EXPECT_EQ(repeats.answer(other, "r"), "r");
  EXPECT_EQ(repeats.answer(call, "r"), "r");
  EXPECT_EQ(repeats.answer(call, "another"), "another");
  const std::string third = repeats.answer(call, "r");
  EXPECT_THAT(third, HasSubstr("3 times of late"));
  Repeats resumed;
  for (const std::string& result : {std::string("r"), std::string("r"), third})
    resumed.recall(call, result);
  EXPECT_THAT(resumed.answer(call, "r"), HasSubstr("4 times of late"));
}

}  // namespace marathon
