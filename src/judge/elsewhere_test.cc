// Request folders, and judging them: a fake executor judges by reading.
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "base/hash.h"
#include "fakes/fake_executor.h"
#include "fakes/tiny_task.h"
#include "judge/judge_fixture.h"

namespace marathon {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class Packed : public testing::Test {
 protected:
  void SetUp() override {
    write_tiny_task(root() / "task");
    candidate("slow", "speed 0.9");
    candidate("fast", "speed 3");
    candidate("broken", "wrong");
    plan_.task_folder = root() / "task";
    for (const char* name : {"slow", "fast", "broken"})
      plan_.candidates.push_back({root() / name, std::string("note on ") + name, "tiling"});
  }
  const fs::path& root() const { return folder_.path(); }
  fs::path request() const { return root() / "request"; }
  fs::path result() const { return root() / "result.json"; }
  void candidate(const std::string& name, const std::string& source) {
    put(root() / name / "solution.cc", source);
    put(root() / name / "params.toml", "A = 1\nBB = 1\nCCC = 0\n");
    put(root() / name / "notes.md", "not editable");
  }
  JudgeRequest pack() {
    const Result<JudgeRequest> packed = pack_request(plan_, request());
    EXPECT_TRUE(packed) << packed.error().what;
    return packed ? *packed : JudgeRequest();
  }
  Result<JudgeResults> judge(std::stop_token stop = {}) {
    PackedJob job;
    job.request_folder = request();
    job.result_file = result();
    job.how = how_;
    job.executor = &executor_;
    job.say = [this](const std::string& line) { said_.push_back(line); };
    return judge_packed(job, no_stage, stop);
  }
  JudgeResults in_file() const {
    const Result<JudgeResults> results = judge_results_from(*parse_json(text_of(result())));
    EXPECT_TRUE(results) << results.error().what;
    return results ? *results : JudgeResults();
  }
  template <class T>
  static void expect_error(const Result<T>& got, Fault fault, const std::string& text) {
    ASSERT_FALSE(got);
    EXPECT_EQ(got.error().fault, fault) << got.error().what;
    EXPECT_THAT(got.error().what, HasSubstr(text));
  }
  // What is packed now cannot be judged, and nothing is written.
  void expect_changed(const std::string& file, const std::string& how) {
    expect_error(judge(), Fault::corrupt, file);
    expect_error(judge(), Fault::corrupt, how);
    EXPECT_TRUE(executor_.requests.empty());
    EXPECT_FALSE(fs::exists(result()));
  }
  fs::path packed_folder(size_t i) {
    const JudgeRequest opened = *open_request(request());
    return request() / "candidates" / short_hash(opened.candidates[i].candidate);
  }

  TempFolder folder_ = temp_folder();
  FakeExecutor executor_;
  PackPlan plan_;
  EvaluationRequest how_;
  std::vector<std::string> said_;
};

TEST_F(Packed, ARequestStandsAlone) {
  const JudgeRequest packed = pack();
  ASSERT_TRUE(remove_tree(root() / "task"));
  const Result<JudgeRequest> opened = open_request(request());
  ASSERT_TRUE(opened) << opened.error().what;
  EXPECT_EQ(request_hash(*opened), request_hash(packed));
  EXPECT_EQ(opened->task_hash, load_task(request() / "task")->hash);
  EXPECT_EQ(opened->candidates[1].note, "note on fast");
  EXPECT_FALSE(fs::exists(packed_folder(0) / "notes.md"));
}

TEST_F(Packed, NothingIsOverwritten) {
  pack();
  const std::string before = text_of(request() / "request.json");
  expect_error(pack_request(plan_, request()), Fault::invalid, "name a new folder");
  EXPECT_EQ(text_of(request() / "request.json"), before);
}

TEST_F(Packed, WhatCannotBePackedLeavesNothing) {
  plan_.candidates.push_back({root() / "none", "", ""});
  expect_error(pack_request(plan_, request()), Fault::not_found, "none");
  plan_.candidates.back().folder = root() / "fast";
  expect_error(pack_request(plan_, request()), Fault::invalid, "the same files");
  put(root() / "empty" / "notes.md", "");
  plan_.candidates.back().folder = root() / "empty";
  expect_error(pack_request(plan_, request()), Fault::invalid, "editable files: solution.cc");
  fs::create_symlink(root() / "fast" / "solution.cc", root() / "empty" / "solution.cc");
  expect_error(pack_request(plan_, request()), Fault::invalid, "symbolic link");
  for (const fs::directory_entry& entry : fs::directory_iterator(root()))
    EXPECT_THAT(entry.path().filename().string(), testing::Not(HasSubstr("request")));
}

TEST_F(Packed, AChangedTaskFileIsFound) {
  pack();
  put(request() / "task" / "oracle.cc", "// kinder");
  expect_changed("task/oracle.cc", "was changed since it was packed");
}

TEST_F(Packed, AFileMoreOrLessIsFound) {
  pack();
  put(request() / "task" / "more.h", "");
  expect_changed("task/more.h", "was added");
  ASSERT_TRUE(remove_tree(request() / "task" / "more.h"));
  const fs::path own = packed_folder(1) / "solution.cc";
  put(own, "speed 30");
  expect_changed(own.string(), "was changed");
  ASSERT_TRUE(remove_tree(own));
  expect_changed(own.string(), "was removed");
}

TEST_F(Packed, AChangedManifestIsFound) {
  pack();
  std::string text = text_of(request() / "request.json");
  text.replace(text.find("note on fast"), 12, "note on slow");
  put(request() / "request.json", text);
  expect_changed("request.json", "does not fit its hash");
  expect_error(open_request(root()), Fault::not_found, "--pack DIR");
}

TEST_F(Packed, AllAreJudgedAndTheFileSaysAll) {
  const JudgeRequest packed = pack();
  ASSERT_TRUE(judge());
  const JudgeResults results = in_file();
  ASSERT_EQ(results.judged.size(), 3U);
  EXPECT_EQ(results.judged[0].verdict.kind, VerdictKind::slower);
  EXPECT_EQ(results.judged[1].verdict.kind, VerdictKind::faster);
  EXPECT_EQ(results.judged[2].verdict.kind, VerdictKind::wrong);
  EXPECT_EQ(results.judged[1].files.at("solution.cc"), "speed 3");
  EXPECT_EQ(results.judged[1].request, request_hash(packed));
  EXPECT_EQ(results.judged[1].verdict.provenance.cpu, "a fake CPU");
  EXPECT_FALSE(results.judged[1].quick);
  EXPECT_THAT(said_[1], AllOf(HasSubstr("[2/3]"), HasSubstr("fast"), HasSubstr("faster  3.1")));
}

TEST_F(Packed, TheIncumbentIsWhatIsToBeBeaten) {
  candidate("best", "speed 4");
  plan_.incumbent_folder = root() / "best";
  const JudgeRequest packed = pack();
  ASSERT_TRUE(judge());
  EXPECT_EQ(in_file().judged[1].verdict.kind, VerdictKind::slower);
  EXPECT_EQ(in_file().judged[1].incumbent, packed.incumbent->candidate);
}

TEST_F(Packed, AStopCostsTheOneInFlight) {
  pack();
  std::stop_source source;
  executor_.before = [&](const EvaluationRequest&, std::stop_token) -> Status {
    if (executor_.requests.size() < 2) return {};
    source.request_stop();
    return fail(Fault::cancelled, "stopped");
  };
  expect_error(judge(source.get_token()), Fault::cancelled, "1 of 3 candidates have a verdict");
  EXPECT_EQ(in_file().judged.size(), 1U);
  executor_.before = nullptr;
  ASSERT_TRUE(judge());
  EXPECT_EQ(in_file().judged.size(), 3U);
  EXPECT_EQ(executor_.requests.size(), 4U);  // the second one twice, the first one once
  ASSERT_TRUE(judge());
  EXPECT_EQ(executor_.requests.size(), 4U);
  EXPECT_THAT(said_.back(), HasSubstr("judged before"));
}

TEST_F(Packed, AQuickLookDoesNotStandForAFullOne) {
  pack();
  how_.effort = Effort::quick;
  ASSERT_TRUE(judge());
  EXPECT_TRUE(in_file().judged[0].quick);
  how_.effort = Effort::full;
  ASSERT_TRUE(judge());
  EXPECT_EQ(executor_.requests.size(), 6U);
  how_.effort = Effort::quick;
  ASSERT_TRUE(judge());
  EXPECT_EQ(executor_.requests.size(), 6U);
  EXPECT_EQ(in_file().judged.size(), 3U);
  EXPECT_FALSE(in_file().judged[0].quick);
}

TEST_F(Packed, OurOwnFailureAtOneCandidateDoesNotCostTheOthers) {
  pack();
  executor_.before = [&](const EvaluationRequest&, std::stop_token) -> Status {
    if (executor_.requests.size() != 1) return {};
    return fail(Fault::system, "the GPU fell off the bus");
  };
  expect_error(judge(), Fault::system, "1 of 3 candidates could not be judged");
  EXPECT_EQ(in_file().judged.size(), 2U);
  ASSERT_TRUE(judge());
  EXPECT_EQ(in_file().judged.size(), 3U);
}

TEST_F(Packed, TwoFailuresInARowEndIt) {
  pack();
  executor_.before = [&](const EvaluationRequest&, std::stop_token) {
    return Status(fail(Fault::system, "no GPU"));
  };
  expect_error(judge(), Fault::system, "the same command goes on from there");
  EXPECT_EQ(executor_.requests.size(), 2U);
}

TEST_F(Packed, AChangeWhileItIsJudgedCosts) {
  pack();
  const fs::path own = packed_folder(1) / "solution.cc";
  executor_.before = [&](const EvaluationRequest&, std::stop_token) -> Status {
    if (executor_.requests.size() == 2) put(own, "speed 30");
    return {};
  };
  expect_error(judge(), Fault::corrupt, "was changed");
  EXPECT_EQ(in_file().judged.size(), 1U);
}

TEST_F(Packed, AForeignResultFileIsLeftAsItIs) {
  pack();
  ASSERT_TRUE(judge());
  const std::string whole = text_of(result());
  put(result(), "my notes");
  expect_error(judge(), Fault::invalid, "name another result file");
  EXPECT_EQ(text_of(result()), "my notes");
  std::string damaged = whole;
  damaged.replace(damaged.find("speed 0.9"), 9, "speed 9.9");
  put(result(), damaged);
  expect_error(judge(), Fault::corrupt, "name another result file");
  EXPECT_EQ(text_of(result()), damaged);
  put(result(), whole);
  ASSERT_TRUE(remove_tree(request()));
  plan_.candidates.pop_back();
  pack();
  expect_error(judge(), Fault::invalid, "results of another request");
  EXPECT_EQ(text_of(result()), whole);
}

TEST_F(Packed, OneJobAFile) {
  pack();
  executor_.before = [&](const EvaluationRequest&, std::stop_token) -> Status {
    executor_.before = nullptr;
    expect_error(judge(), Fault::busy, "another marathon is judging into");
    return {};
  };
  ASSERT_TRUE(judge());
  EXPECT_EQ(executor_.requests.size(), 3U);
}

}  // namespace
}  // namespace marathon
