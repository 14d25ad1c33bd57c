// Verdicts from another machine taken into a run.
#include <nlohmann/json.hpp>

#include "base/hash.h"
#include "run/run_fixture.h"

namespace marathon {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class FromResult : public RunTest {
 protected:
  fs::path request() const { return temp_.path() / "request"; }
  fs::path result() const { return temp_.path() / "result.json"; }

  // A run whose best has speed 2 on "a fake CPU".
  void begin() {
    start({{{"write_file", R"({"path": "solution.cc", "content": "speed 2"})"},
            {"evaluate", evaluate_call()}}});
    must(write_candidate(home(), "tiny-run", "", temp_.path() / "best"));
  }
  // Packs candidates of these sources, judges them as another machine would, writes result().
  JudgeResults judge_there(const std::vector<std::string>& candidates, bool with_incumbent = true) {
    must(remove_tree(request()));
    must(remove_tree(result()));
    PackPlan plan;
    plan.task_folder = task();
    if (with_incumbent) plan.incumbent_folder = temp_.path() / "best";
    for (const std::string& source : candidates) {
      const fs::path from = temp_.path() / fmt::format("from-{}", ++made_);
      must(make_folders(from / "extra"));
      must(write_file(from / "extra" / "more.h", "int more;\n"));
      must(write_file(from / "solution.cc", source));
      must(write_file(from / "params.toml", "A = 1\nBB = 1\nCCC = 0\n"));
      plan.candidates.push_back({from, "thought on " + source, "tiling"});
    }
    must(pack_request(plan, request()));
    PackedJob job;
    job.request_folder = request();
    job.result_file = result();
    job.how.effort = effort_;
    job.executor = &there_;
    return must(judge_packed(job, [](auto&&...) { return Status(); }, {}));
  }
  AttemptOptions from_result() {
    AttemptOptions options;
    options.home = home();
    options.run = "tiny-run";
    options.from_result = result();
    options.executor = &executor_;
    options.on_trouble = [this](const std::string& text) { troubles_.push_back(text); };
    return options;
  }
  RunOutcome take() { return must(attempt_from_result(from_result(), {})); }
  // Refused, and the log is as it was.
  void expect_refused(Fault fault, const std::string& why) {
    const size_t before = events().size();
    const Result<RunOutcome> taken = attempt_from_result(from_result(), {});
    ASSERT_FALSE(taken);
    EXPECT_EQ(taken.error().fault, fault) << taken.error().what;
    EXPECT_THAT(taken.error().what, HasSubstr(why));
    EXPECT_EQ(events().size(), before);
  }
  Verdict newest_verdict() { return all_of<EvaluationFinished>().back().verdict; }
  void expect_held_back(const RunOutcome& outcome, const std::string& why) {
    EXPECT_EQ(outcome.state.incumbent->attempt, 2);
    EXPECT_EQ(outcome.state.attempts.size(), 3U);
    EXPECT_THAT(newest_verdict().reasons, Contains(HasSubstr(why)));
    expect_clean();
  }

  FakeExecutor there_;
  Effort effort_ = Effort::full;
  int64_t made_ = 0;
};

TEST_F(FromResult, AVerdictIsAnAttemptWithItsProvenanceAndItsCommit) {
  begin();
  const JudgeResults sent = judge_there({"speed 3", "wrong"});
  const size_t judged_here = executor_.requests.size();
  const RunOutcome outcome = take();
  EXPECT_EQ(executor_.requests.size(), judged_here);  // nothing is judged again
  ASSERT_EQ(outcome.state.attempts.size(), 4U);
  const Attempt& fast = outcome.state.attempts[2];
  EXPECT_EQ(fast.candidate, sent.judged[0].candidate);
  EXPECT_EQ(fast.by, "elsewhere");
  EXPECT_EQ(fast.hypothesis, "thought on speed 3");
  EXPECT_EQ(fast.category, "tiling");
  EXPECT_TRUE(fast.elsewhere);
  EXPECT_TRUE(fast.configuration.empty());
  EXPECT_TRUE(fast.became_incumbent);
  EXPECT_EQ(outcome.state.incumbent->attempt, 3);
  EXPECT_EQ(outcome.state.attempts[3].verdict, VerdictKind::wrong);
  const Provenance by = newest_verdict().provenance;
  EXPECT_EQ(by.cpu, "a fake CPU");
  EXPECT_EQ(by.effort, "full");
  EXPECT_EQ(by.elsewhere, request_hash(sent.request));
  EXPECT_THAT(must(Workspace(folder()).missing({fast.commit})), IsEmpty());
  must(write_candidate(home(), "tiny-run", "", temp_.path() / "now"));
  EXPECT_EQ(must(read_file(temp_.path() / "now" / "solution.cc")), "speed 3");
  EXPECT_EQ(outcome.state.unknown_events, 0);
  expect_clean();
}

TEST_F(FromResult, TheSameResultTwiceAddsNothing) {
  begin();
  judge_there({"speed 3", "wrong"});
  take();
  const size_t before = events().size();
  take();
  EXPECT_EQ(events().size(), before);
  EXPECT_THAT(troubles_, testing::ElementsAre(HasSubstr("in the log already"),
                                              HasSubstr("in the log already")));
}

TEST_F(FromResult, ALaterResultAddsOnlyWhatIsNew) {
  begin();
  judge_there({"speed 3"});
  take();
  judge_there({"speed 3", "speed 1.5"});
  const RunOutcome outcome = take();
  EXPECT_EQ(outcome.state.attempts.size(), 4U);
  EXPECT_THAT(troubles_, testing::ElementsAre(HasSubstr("attempt #3 has a verdict already")));
}

TEST_F(FromResult, ANoteOfThePersonCounts) {
  begin();
  judge_there({"speed 3"});
  AttemptOptions options = from_result();
  options.note = "from the lab";
  EXPECT_EQ(must(attempt_from_result(options, {})).state.attempts.back().hypothesis,
            "from the lab");
}

TEST_F(FromResult, OfSeveralGainsTheLargestIsTheBest) {
  begin();
  judge_there({"speed 3", "speed 5", "speed 4"});
  const RunOutcome outcome = take();
  EXPECT_EQ(outcome.state.attempts[outcome.state.incumbent->attempt - 1].hypothesis,
            "thought on speed 5");
  EXPECT_EQ(all_of<IncumbentChanged>().size(), 3U);  // start, speed 2, speed 5
  EXPECT_EQ(outcome.state.attempts.size(), 5U);
}

TEST_F(FromResult, AnotherModelIsRecordedAndNotPromoted) {
  begin();
  there_.cpu = "another CPU";
  judge_there({"speed 3"});
  expect_held_back(take(), "measured on another CPU, the best of the run on a fake CPU");
}

TEST_F(FromResult, AnUnknownModelIsNotPromoted) {
  there_.cpu = executor_.cpu = "";
  begin();
  judge_there({"speed 3"});
  expect_held_back(take(), "an unknown model");
}

// On a GPU its model decides, and the CPU beside it does not.
TEST_F(FromResult, OfAGpuTheModelOfTheGpuCounts) {
  std::string text(tiny_task);
  const auto change = [&](const std::string& from, const std::string& to) {
    ASSERT_NE(text.find(from), std::string::npos) << from;
    text.replace(text.find(from), from.size(), to);
  };
  change("language = \"c++\"", "language = [\"cuda\"]");
  change("sources = [\"solution.cc\"]", "sources = [\"solution.cu\"]");
  change("editable = [", "editable = [\"solution.cu\", ");
  change("oracle = \"oracle.cc\"", "oracle = \"oracle.cu\"");
  must(write_file(task() / "task.toml", text));
  must(write_file(task() / "oracle.cu", "// the oracle\n"));
  for (const char* folder : {"start", "baseline"})
    must(write_file(task() / folder / "solution.cu", "// kernels\n"));
  executor_.gpu = "NVIDIA H200";
  begin();
  there_.gpu = "NVIDIA H100";
  judge_there({"speed 3"});
  expect_held_back(take(), "measured on NVIDIA H100, the best of the run on NVIDIA H200");
  there_.gpu = "";
  judge_there({"speed 4"});
  take();
  EXPECT_THAT(newest_verdict().reasons, Contains(HasSubstr("an unknown model")));
  there_.gpu = "NVIDIA H200";
  there_.cpu = "another CPU";
  judge_there({"speed 5"});
  EXPECT_EQ(take().state.incumbent->attempt, 5);
  expect_clean();
}

TEST_F(FromResult, AQuickLookIsNotPromoted) {
  begin();
  effort_ = Effort::quick;
  judge_there({"speed 3"});
  expect_held_back(take(), "a quick look never promotes");
  EXPECT_EQ(newest_verdict().provenance.effort, "quick");
  // The full judgement of the same candidate counts.
  effort_ = Effort::full;
  judge_there({"speed 3"});
  EXPECT_EQ(take().state.incumbent->attempt, 3) << testing::PrintToString(newest_verdict().reasons);
  expect_clean();
}

TEST_F(FromResult, AQuickLookIsNotEvenTheFirst) {
  must(write_file(task() / "start" / "solution.cc", "wrong"));
  start({});
  effort_ = Effort::quick;
  judge_there({"speed 3"}, false);
  EXPECT_FALSE(take().state.incumbent);
}

TEST_F(FromResult, WithoutABestTheFastestIsTheFirst) {
  must(write_file(task() / "start" / "solution.cc", "wrong"));
  start({});
  judge_there({"speed 0.5", "speed 0.7"}, false);
  const State state = take().state;
  ASSERT_TRUE(state.incumbent);
  EXPECT_EQ(state.attempts[state.incumbent->attempt - 1].hypothesis, "thought on speed 0.7");
}

TEST_F(FromResult, WhatWasComparedWithTheBaselineOnlyIsNotPromoted) {
  begin();
  judge_there({"speed 3"}, false);
  expect_held_back(take(), "compared with the baseline only");
}

TEST_F(FromResult, WhatWasComparedWithAnOldBestIsNotPromoted) {
  begin();
  judge_there({"speed 3"});
  take();
  judge_there({"speed 4"});  // its incumbent is still the one of speed 2
  const RunOutcome outcome = take();
  EXPECT_EQ(outcome.state.incumbent->attempt, 3);
  EXPECT_THAT(newest_verdict().reasons, Contains(HasSubstr("(attempt #3)")));
}

// What could not count there is judged when a person brings it here; anything else is not.
TEST_F(FromResult, AHeldBackGainMayBeJudgedHere) {
  begin();
  there_.cpu = "another CPU";
  judge_there({"speed 3"});
  take();
  AttemptOptions options = from_result();
  options.from_result.clear();
  options.from = temp_.path() / "from-1";
  options.note = "here";
  const RunOutcome outcome = must(attempt(options, {}));
  EXPECT_EQ(outcome.state.incumbent->attempt, 3);
  EXPECT_EQ(outcome.state.attempts.size(), 3U);
  EXPECT_FALSE(outcome.state.attempts[2].elsewhere);
  expect_clean();
}

TEST_F(FromResult, AnotherTaskIsRefused) {
  begin();
  must(write_file(task() / "frozen.h", "// thawed\n"));
  judge_there({"speed 3"});
  expect_refused(Fault::invalid, "another task");
}

TEST_F(FromResult, DamageIsRefusedWhole) {
  begin();
  judge_there({"speed 3", "speed 4"});
  const std::string whole = must(read_file(result()));
  for (const auto& [from, to] : {std::pair<std::string, std::string>{"speed 4", "speed 5"},
                                 {"\"confirmed\": true", "\"confirmed\": 1"},
                                 {"\"schema\": 1", "\"schema\": 2"},
                                 {"\"faster\"", "\"slower\""}}) {
    std::string damaged = whole;
    ASSERT_NE(damaged.rfind(from), std::string::npos) << from;
    damaged.replace(damaged.rfind(from), from.size(), to);
    must(write_file(result(), damaged));
    const size_t before = events().size();
    EXPECT_FALSE(attempt_from_result(from_result(), {})) << from;
    EXPECT_EQ(events().size(), before);
  }
  must(write_file(result(), whole.substr(0, whole.size() / 2)));
  expect_refused(Fault::invalid, "result.json");
  must(write_file(result(), dump_json(to_json(must(open_request(request()))))));
  expect_refused(Fault::invalid, "no marathon judge results");
}

TEST_F(FromResult, FilesThatNobodyMayEditAreRefused) {
  begin();
  JudgeResults results = judge_there({"speed 3"});
  JudgedCandidate& judged = results.judged[0];
  judged.files["oracle.cc"] = "// kinder";
  PackedCandidate& packed = results.request.candidates[0];
  packed.files["oracle.cc"] = sha256_hex("// kinder");
  packed.candidate = judged.candidate = hash_of_files(judged.files);
  judged.request = request_hash(results.request);
  must(write_file(result(), dump_json(to_json(results))));
  const Result<RunOutcome> taken = attempt_from_result(from_result(), {});
  ASSERT_FALSE(taken);
  EXPECT_THAT(taken.error().what, HasSubstr("does not let anybody edit"));
  EXPECT_THAT(all_of<CandidateAdded>(), testing::SizeIs(2));
}

// The hashes that a forger or a bug puts there name nothing in this run.
TEST_F(FromResult, ArtifactsOfAnotherRunAreNotNamed) {
  begin();
  JudgeResults results = judge_there({"speed 3"});
  results.judged[0].verdict.profile_artifact = sha256_hex("nowhere");
  results.judged[0].verdict.build_output_artifact = sha256_hex("nowhere");
  results.judged[0].verdict.whole_artifact = sha256_hex("nowhere");
  must(write_file(result(), dump_json(to_json(results))));
  take();
  EXPECT_EQ(newest_verdict().profile_artifact, "");
  expect_clean();
}

TEST_F(FromResult, ALongVerdictFitsAndPruneKeepsWhatCounts) {
  begin();
  there_.long_text_bytes = 200'000;
  there_.samples = 4000;
  judge_there({"speed 3", "speed 1.2", "speed 1.1"});
  take();
  expect_clean();
  EXPECT_GT(must(prune_run(home(), "tiny-run", false)).removed_files, 0);
  expect_clean();
}

TEST_F(FromResult, WhatWasOpenIsSettledFirst) {
  executor_.before = [](const EvaluationRequest&, std::stop_token) {
    return Status(fail(Fault::not_found, "no GPU here"));
  };
  EXPECT_FALSE(start_run(options(), {}));
  judge_there({"speed 3"}, false);
  const Result<RunOutcome> taken = attempt_from_result(from_result(), {});
  ASSERT_FALSE(taken);
  EXPECT_THAT(taken.error().what, HasSubstr("no GPU here"));
  executor_.before = nullptr;
  const RunOutcome outcome = take();
  EXPECT_EQ(outcome.state.attempts.size(), 2U);
  EXPECT_EQ(all_of<EvaluationRepeated>().size(), 2U);
  expect_clean();
}

TEST_F(FromResult, TheSearchGoesOnBehindIt) {
  std::stop_source source;
  int64_t judged = 0;
  executor_.before = [&](const EvaluationRequest&, std::stop_token) -> Status {
    if (++judged < 4) return {};
    source.request_stop();
    return fail(Fault::cancelled, "stopped");
  };
  must(start_run(options(), source.get_token()));
  executor_.before = nullptr;
  judge_there({"speed 30"}, false);
  take();
  const RunOutcome outcome = must(resume_run(options(), "tiny-run", {}));
  EXPECT_EQ(outcome.state.spent.evaluations, 12);
  EXPECT_EQ(outcome.state.unknown_events, 0);
  expect_clean();
}

}  // namespace marathon
