// Stops, resumes, second writers, attempts of a person.
#include <nlohmann/json.hpp>

#include "run/run_fixture.h"

namespace marathon {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

class RecoveryTest : public RunTest {
 protected:
  // Starts a run that is stopped while it judges its n-th candidate.
  RunOutcome stopped_at(int64_t n, RunOptions with) {
    std::stop_source source;
    int64_t judged = 0;
    executor_.before = [&, n](const EvaluationRequest&, std::stop_token) -> Status {
      if (++judged < n) return {};
      source.request_stop();
      return fail(Fault::cancelled, "stopped");
    };
    RunOutcome outcome = must(start_run(with, source.get_token()));
    executor_.before = nullptr;
    return outcome;
  }
  RunOutcome stopped_at(int64_t n) { return stopped_at(n, options()); }

  AttemptOptions attempt_from(const fs::path& from) {
    AttemptOptions options;
    options.home = home();
    options.from = from;
    options.run = "tiny-run";
    options.note = "a person's thought";
    options.executor = &executor_;
    options.on_trouble = [this](const std::string& text) { troubles_.push_back(text); };
    return options;
  }
  fs::path folder_with(const std::string& source) {
    const fs::path from = temp_.path() / "from";
    must(make_folders(from));
    must(write_file(from / "solution.cc", source));
    must(write_file(from / "unrelated.txt", "x"));
    return from;
  }
  template <class T>
  void expect_error(const Result<T>& result, Fault fault, const std::string& text) {
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().fault, fault) << result.error().what;
    EXPECT_THAT(result.error().what, HasSubstr(text));
  }
};

TEST_F(RecoveryTest, AStopWritesNoOutcomeAndAResumeRepeatsUnderTheSameKey) {
  const RunOutcome paused = stopped_at(5);
  EXPECT_FALSE(paused.state.ending);
  ASSERT_TRUE(paused.state.evaluation_open);
  EXPECT_EQ(kinds().back(), "evaluation.started");
  const RunOutcome outcome = must(resume_run(options(), "tiny-run", {}));
  EXPECT_EQ(outcome.state.spent.evaluations, 12);
  EXPECT_EQ(all_of<EvaluationRepeated>().size(), 1U);
  EXPECT_EQ(all_of<EvaluationRepeated>()[0].key, paused.state.evaluation_open->key);
  EXPECT_EQ(executor_.requests[4].seed, executor_.requests[5].seed);
  EXPECT_EQ(all_of<RunResumed>().size(), 1U);
  expect_clean();
}

TEST_F(RecoveryTest, AnEndedRunIsNotResumed) {
  must(start_run(options(), {}));
  const size_t before = events().size();
  const Result<RunOutcome> again = resume_run(options(), "tiny-run", {});
  expect_error(again, Fault::invalid, "has ended (goal_met");
  EXPECT_THAT(again.error().what,
              AllOf(HasSubstr("marathon run TASK"), HasSubstr("marathon attempt")));
  EXPECT_EQ(events().size(), before);
  expect_error(resume_run(options(), "none", {}), Fault::not_found, "no run 'none'");
}

TEST_F(RecoveryTest, ANameIsTakenOnce) {
  must(start_run(options(), {}));
  expect_error(start_run(options(), {}), Fault::invalid, "marathon resume tiny-run");
  RunOptions with = options();
  with.name = "../x";
  expect_error(start_run(with, {}), Fault::invalid, "no name for a run");
  with.name = "";
  const std::string first = must(start_run(with, {})).run, second = must(start_run(with, {})).run;
  EXPECT_THAT(first, testing::MatchesRegex("tiny-[0-9]+-1"));
  EXPECT_THAT(second, testing::MatchesRegex("tiny-[0-9]+-2"));
}

TEST_F(RecoveryTest, WhatCannotStartLeavesNothing) {
  RunOptions with = options();
  with.agent = "oracle";
  expect_error(start_run(with, {}), Fault::invalid, "search and scripted:FILE");
  with.agent = "scripted:" + (temp_.path() / "none").string();
  expect_error(start_run(with, {}), Fault::not_found, "none");
  EXPECT_FALSE(fs::exists(folder()));
}

TEST_F(RecoveryTest, TheSecondWriterIsToldWhoTheFirstIs) {
  executor_.before = [&](const EvaluationRequest&, std::stop_token) -> Status {
    executor_.before = nullptr;
    const std::string pid = fmt::format("pid {}", ::getpid());
    expect_error(resume_run(options(), "tiny-run", {}), Fault::busy, pid);
    expect_error(start_run(options(), {}), Fault::busy, pid);
    expect_error(attempt(attempt_from(folder_with("x")), {}), Fault::busy, pid);
    expect_error(prune_run(home(), "tiny-run", false), Fault::busy, pid);
    EXPECT_TRUE(Reader::open(folder()));  // readers are welcome
    return {};
  };
  must(start_run(options(), {}));
  EXPECT_THAT(kinds(), Not(Contains("run.resumed")));
}

TEST_F(RecoveryTest, AChangedCopyOfTheTaskIsFound) {
  stopped_at(3);
  must(write_file(folder() / "task" / "oracle.cc", "// kinder"));
  expect_error(resume_run(options(), "tiny-run", {}), Fault::corrupt,
               "was changed since the start");
  expect_error(attempt(attempt_from(folder_with("x")), {}), Fault::corrupt, "was changed");
  must(write_file(folder() / "task" / "oracle.cc", "// the oracle\n"));
  EXPECT_TRUE(resume_run(options(), "tiny-run", {}));
}

TEST_F(RecoveryTest, TheTaskMayChangeAfterTheStart) {
  stopped_at(3);
  must(remove_tree(task()));
  EXPECT_TRUE(must(resume_run(options(), "tiny-run", {})).state.ending);
}

TEST_F(RecoveryTest, WorkspaceAndCommitsAreMadeAgain) {
  const RunOutcome paused = stopped_at(5);
  must(remove_tree(folder() / "workspace"));
  must(make_folders(folder() / "workspace" / "extra"));
  must(write_file(folder() / "workspace" / "extra" / "foreign.h", "x"));
  const RunOutcome outcome = must(resume_run(options(), "tiny-run", {}));
  EXPECT_THAT(troubles_, testing::IsEmpty());
  EXPECT_FALSE(fs::exists(folder() / "workspace" / "extra" / "foreign.h"));
  EXPECT_TRUE(fs::exists(folder() / "workspace" / "extra" / "more.h"));
  const Workspace workspace(folder());
  std::vector<std::string> commits;
  for (const Attempt& attempt : outcome.state.attempts) commits.push_back(attempt.commit);
  EXPECT_THAT(must(workspace.missing(commits)), testing::IsEmpty());
}

TEST_F(RecoveryTest, ALogWithoutAFirstEventIsBegun) {
  RunOptions with = options();
  must(start_run(with, {}));
  const std::string want = fold_fingerprint(must(must(Reader::open(folder())).fold()));
  for (const char* file : {"log.db", "log.db-wal", "log.db-shm", "snapshot.json"})
    must(remove_tree(folder() / file));
  { const Log log = must(Log::create(folder(), "tiny-run")); }
  EXPECT_EQ(fold_fingerprint(must(resume_run(options(), "tiny-run", {})).state), want);
}

TEST_F(RecoveryTest, ALogThatWasNeverToBeginSaysSo) {
  must(make_folders(folder()));
  { const Log log = must(Log::create(folder(), "tiny-run")); }
  expect_error(resume_run(options(), "tiny-run", {}), Fault::invalid, "was never started");
}

TEST_F(RecoveryTest, ALeftoverFolderWithoutALogIsUsed) {
  must(make_folders(folder() / "task" / "old"));
  must(write_file(folder() / "task" / "old" / "file", "x"));
  EXPECT_TRUE(must(start_run(options(), {})).state.ending);
  EXPECT_FALSE(fs::exists(folder() / "task" / "old"));
}

TEST_F(RecoveryTest, AResumeMayRaiseTheBudget) {
  stopped_at(5);
  RunOptions with = options();
  with.budget.evaluations = 20;
  EXPECT_EQ(must(resume_run(with, "tiny-run", {})).state.spent.evaluations, 20);
  EXPECT_EQ(all_of<BudgetChanged>().size(), 1U);
}

TEST_F(RecoveryTest, AScriptGoesOnWhereItStood) {
  const fs::path script = temp_.path() / "script.jsonl";
  std::string lines;
  for (const char* a : {"2", "4", "8"})
    lines += fmt::format(R"({{"calls": [{{"name": "evaluate", "arguments": {}}}]}})",
                         evaluate_call(fmt::format(R"({{"A": {}}})", a))) +
             "\n";
  must(write_file(script, lines));
  RunOptions with = options();
  with.agent = "scripted:" + script.string();
  stopped_at(3, with);
  must(remove_tree(script));
  const RunOutcome outcome = must(resume_run(options(), "tiny-run", {}));
  EXPECT_EQ(outcome.state.spent.evaluations, 4);
  EXPECT_EQ(outcome.state.start->agent, "scripted");
  must(write_file(folder() / "agent.jsonl", "{}\n"));
}

TEST_F(RecoveryTest, AChangedScriptIsFound) {
  const fs::path script = temp_.path() / "script.jsonl";
  must(write_file(script, fmt::format(R"({{"calls": [{{"name": "evaluate", "arguments": {}}}]}})",
                                      evaluate_call(R"({"A": 2})"))));
  RunOptions with = options();
  with.agent = "scripted:" + script.string();
  stopped_at(2, with);
  must(write_file(folder() / "agent.jsonl", "{}\n"));
  expect_error(resume_run(options(), "tiny-run", {}), Fault::invalid, "'scripted'");
}

TEST_F(RecoveryTest, WhatTheJudgeCannotDoStopsTheRunWhereItIs) {
  executor_.before = [](const EvaluationRequest&, std::stop_token) {
    return Status(fail(Fault::system, "no compiler: apt install g++"));
  };
  expect_error(start_run(options(), {}), Fault::system, "marathon resume tiny-run");
  executor_.before = nullptr;
  EXPECT_EQ(must(resume_run(options(), "tiny-run", {})).state.spent.evaluations, 12);
}

TEST_F(RecoveryTest, WhatTheJudgeRefusesEndsTheRunAsBlocked) {
  executor_.before = [](const EvaluationRequest&, std::stop_token) {
    return Status(fail(Fault::invalid, "this version judges C++ only"));
  };
  const RunOutcome outcome = must(start_run(options(), {}));
  EXPECT_EQ(outcome.state.ending->ending, Ending::blocked);
  EXPECT_THAT(outcome.state.ending->evidence, HasSubstr("C++ only"));
}

TEST_F(RecoveryTest, AJudgeWithoutRoomIsWaitedFor) {
  int failures = 0;
  executor_.before = [&](const EvaluationRequest&, std::stop_token) -> Status {
    if (++failures > 2) return {};
    return fail(Fault::no_space, "no room for the build");
  };
  const RunOutcome outcome = must(start_run(options(), {}));
  EXPECT_EQ(outcome.state.spent.evaluations, 12);
  EXPECT_THAT(troubles_, testing::ElementsAre(HasSubstr("no room for the build")));
  EXPECT_EQ(all_of<StorageWaited>().size(), 1U);
}

TEST_F(RecoveryTest, APersonsCandidateIsJudgedLikeAnyOther) {
  must(start_run(options(), {}));
  const RunOutcome outcome = must(attempt(attempt_from(folder_with("speed 30")), {}));
  EXPECT_EQ(outcome.state.spent.evaluations, 13);
  const Attempt& mine = outcome.state.attempts.back();
  EXPECT_EQ(mine.by, "person");
  EXPECT_EQ(mine.hypothesis, "a person's thought");
  EXPECT_TRUE(mine.became_incumbent);
  EXPECT_TRUE(mine.configuration.empty());  // another source: nothing for the search to learn
  EXPECT_EQ(outcome.state.ending->ending, Ending::goal_met);
  expect_clean();
}

TEST_F(RecoveryTest, WhatIsMissingInAPersonsFolderComesFromTheBest) {
  const RunOutcome before = must(start_run(options(), {}));
  must(attempt(attempt_from(folder_with("speed 30")), {}));
  const fs::path mine = temp_.path() / "mine", best = temp_.path() / "best";
  must(write_candidate(home(), "tiny-run", "", mine));
  must(write_candidate(home(), "tiny-run", before.state.incumbent->candidate.substr(0, 8), best));
  EXPECT_EQ(must(read_file(mine / "params.toml")), must(read_file(best / "params.toml")));
  EXPECT_EQ(must(read_file(mine / "solution.cc")), "speed 30");
  EXPECT_FALSE(fs::exists(mine / "unrelated.txt"));
  EXPECT_FALSE(write_candidate(home(), "tiny-run", "", mine));  // not empty
  EXPECT_FALSE(write_candidate(home(), "tiny-run", "abc", temp_.path() / "other"));
}

TEST_F(RecoveryTest, ThePersonsSameCandidateAgainCostsNothing) {
  must(start_run(options(), {}));
  must(attempt(attempt_from(folder_with("speed 30")), {}));
  const size_t judged = executor_.requests.size();
  const RunOutcome again = must(attempt(attempt_from(folder_with("speed 30")), {}));
  EXPECT_EQ(executor_.requests.size(), judged);
  EXPECT_THAT(again.state.notes.back(), HasSubstr("a person's thought (attempt #13 again"));
  EXPECT_THAT(troubles_.back(), HasSubstr("judged before, as attempt #13"));
}

TEST_F(RecoveryTest, AnAttemptSettlesWhatWasOpenFirst) {
  stopped_at(4);
  const RunOutcome outcome = must(attempt(attempt_from(folder_with("speed 30")), {}));
  EXPECT_FALSE(outcome.state.evaluation_open);
  EXPECT_FALSE(outcome.state.ending);
  EXPECT_EQ(all_of<EvaluationRepeated>().size(), 1U);
  EXPECT_EQ(must(resume_run(options(), "tiny-run", {})).state.spent.evaluations, 12);
  expect_clean();
}

TEST_F(RecoveryTest, AFolderWithoutAnythingToJudgeIsRefused) {
  must(start_run(options(), {}));
  expect_error(attempt(attempt_from(temp_.path() / "none"), {}), Fault::not_found, "none");
  must(make_folders(temp_.path() / "empty"));
  expect_error(attempt(attempt_from(temp_.path() / "empty"), {}), Fault::invalid, "solution.cc");
}

TEST_F(RecoveryTest, PruneKeepsWhatCountsAndVerifies) {
  must(start_run(options(), {}));
  EXPECT_GT(must(prune_run(home(), "tiny-run", true)).removed_files, 0);
  EXPECT_GT(must(prune_run(home(), "tiny-run", false)).removed_files, 0);
  must(write_candidate(home(), "tiny-run", "", temp_.path() / "best"));
  expect_clean();
  const State state = must(must(Reader::open(folder())).fold());
  for (const Attempt& attempt : state.attempts) {
    if (attempt.became_incumbent || attempt.number == 12) continue;
    const Status gone =
        write_candidate(home(), "tiny-run", attempt.candidate, temp_.path() / "gone");
    ASSERT_FALSE(gone);
    EXPECT_THAT(gone.error().what, HasSubstr("archive " + attempt.commit));
    return;
  }
}

TEST_F(RecoveryTest, RunsAreFoundByNamePrefixAndLast) {
  must(start_run(options(), {}));
  RunOptions other = options();
  other.name = "tiny-two";
  must(start_run(other, {}));
  EXPECT_EQ(must(find_run(home(), "tiny-run")), "tiny-run");
  EXPECT_EQ(must(find_run(home(), "tiny-t")), "tiny-two");
  EXPECT_EQ(must(find_run(home(), "--last")), "tiny-two");
  expect_error(find_run(home(), "tiny"), Fault::invalid, "tiny-run tiny-two");
  expect_error(find_run(home(), "x"), Fault::not_found, "tiny-run");
  expect_error(find_run(temp_.path() / "nowhere", "--last"), Fault::not_found, "marathon run TASK");
}

}  // namespace marathon
