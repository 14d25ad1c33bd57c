// The pipeline of a kernel with a marathon-judge that a test writes; and jobs elsewhere.
#include <unistd.h>

#include <csignal>
#include <nlohmann/json.hpp>
#include <thread>

#include "judge/judge_fixture.h"
#include "judge/pipeline.h"

namespace marathon {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

Json good_verdict() {
  Verdict verdict;
  verdict.kind = VerdictKind::faster;
  verdict.speedup = {2, 1.9, 2.1};
  verdict.gain = verdict.speedup;
  verdict.confirmed = true;
  verdict.reasons = {"2 times the speed of the baseline"};
  verdict.provenance.seed = 7;
  return to_json(verdict);
}

// Answers "peaks" as a machine would and everything else by `script`, in which $result is the file
// to write and $request the one that was written.
std::string fake_judge(const fs::path& folder, const std::string& script) {
  return fmt::format(
      "request=$2 result=$4\n"
      "if grep -q '\"mode\":\"peaks\"' $request; then echo peaks >> {0}/calls\n"
      "  echo '{{\"gflops\": 100, \"memory_gbytes_s\": 10}}' > $result; exit 0; fi\n"
      "cp $request {0}/request.json\n{1}\n",
      folder.string(), script);
}

class KernelPipeline : public testing::Test {
 protected:
  void SetUp() override {
    put_kernel_task(root() / "task");
    ASSERT_TRUE(copy_tree(root() / "task/start", root() / "own"));
    put(root() / "verdict.json", dump_json(good_verdict()));
    judge_says("cp " + (root() / "verdict.json").string() + " $result");
    request_.task_folder = root() / "task";
    request_.candidate_folder = root() / "own";
    request_.cache_folder = root() / "cache";
    request_.result_folder = root() / "result";
    request_.profile_new_best = false;
  }
  const fs::path& root() const { return folder_.path(); }
  void judge_says(const std::string& script) {
    put_program(programs_.path() / "marathon-judge", fake_judge(root(), script));
  }
  Result<Verdict> evaluate(std::stop_token stop = {}) {
    return make_local_executor()->evaluate(
        request_,
        [&](const std::string& stage, const std::string& text, double) {
          stages_.push_back(stage + ": " + text);
          return Status();
        },
        stop);
  }
  Verdict judge() {
    const Result<Verdict> verdict = evaluate();
    EXPECT_TRUE(verdict) << (verdict ? "" : verdict.error().what);
    return verdict ? *verdict : Verdict();
  }
  Error error() {
    const Result<Verdict> verdict = evaluate();
    EXPECT_FALSE(verdict) << to_string(verdict->kind);
    return verdict ? Error() : verdict.error();
  }
  bool bench_was_asked() const { return fs::exists(root() / "request.json"); }

  TempFolder folder_ = temp_folder();
  ProgramFolder programs_;
  EvaluationRequest request_;
  std::vector<std::string> stages_;
};

TEST_F(KernelPipeline, AVerdictWithItsProvenance) {
  put(root() / "own/notes.md", "text");
  const Verdict verdict = judge();
  EXPECT_EQ(verdict.kind, VerdictKind::faster);
  EXPECT_EQ(verdict.reasons.back(), "not editable, so not used: notes.md");
  const Provenance& by = verdict.provenance;
  EXPECT_EQ(by.seed, 7u);
  EXPECT_EQ(by.sandbox, "full");
  EXPECT_EQ(by.flags, "-std=c++20 -O2 -DUNROLL=2");
  for (const std::string* text : {&by.host, &by.cpu, &by.kernel, &by.compiler, &by.judge_version})
    EXPECT_FALSE(text->empty());
  for (const std::string* hash :
       {&by.task_hash, &by.candidate_hash, &by.baseline_hash, &by.binary_hash})
    EXPECT_EQ(hash->size(), 64u);
  EXPECT_GT(by.seconds, 0);
  EXPECT_GT(by.build_s, 0);
  EXPECT_THAT(stages_, ElementsAre("build: built", "rules: kept"));
}

TEST_F(KernelPipeline, WhatTheJudgeIsAsked) {
  request_.seed = 99;
  request_.noise = 0.01;
  request_.effort = Effort::quick;
  judge();
  const Json asked = *parse_json(text_of(root() / "request.json"));
  EXPECT_EQ(json_string(asked, "mode"), "evaluate");
  EXPECT_EQ(json_string(asked, "effort"), "quick");
  EXPECT_EQ(json_int(asked, "seed"), 99);
  EXPECT_EQ(json_double(asked, "noise"), 0.01);
  EXPECT_EQ(json_double(asked.at("peaks"), "gflops"), 100);
  for (const char* library : {"candidate", "baseline", "oracle", "emulation", "worker"})
    EXPECT_TRUE(fs::exists(json_string(asked, library))) << library;
  EXPECT_EQ(json_string(asked, "incumbent"), "");
  // Without a seed each evaluation has a secret one.
  request_.seed = 0;
  judge();
  EXPECT_NE(parse_json(text_of(root() / "request.json"))->at("seed").get<uint64_t>(), 0u);
}

TEST_F(KernelPipeline, PeaksAreMeasuredOnceABoot) {
  judge();
  judge();
  EXPECT_EQ(text_of(root() / "calls"), "peaks\n");
  for (const auto& entry : fs::directory_iterator(request_.cache_folder)) {
    if (entry.path().filename().native().starts_with("peaks-")) put(entry.path(), "damaged");
  }
  judge();
  EXPECT_EQ(text_of(root() / "calls"), "peaks\npeaks\n");
}

// ---- cheap first

TEST_F(KernelPipeline, ABuildThatFailsStopsTheRest) {
  put(root() / "own/solution.cc", "this is no C++\n");
  const Verdict verdict = judge();
  EXPECT_EQ(verdict.kind, VerdictKind::build_failed);
  EXPECT_THAT(verdict.reasons.front(), HasSubstr("solution.cc:1"));
  EXPECT_THAT(verdict.build_output, HasSubstr("this is no C++"));
  EXPECT_THAT(text_of(root() / "result/build.txt"), HasSubstr("this is no C++"));
  EXPECT_EQ(verdict.provenance.sandbox, "full");
  EXPECT_FALSE(bench_was_asked());
}

TEST_F(KernelPipeline, ARuleOfTheTextStopsTheBuild) {
  put(root() / "own/solution.cc", "int f() { goto end; end: return 0; }\n");
  const Verdict verdict = judge();
  EXPECT_EQ(verdict.kind, VerdictKind::rule_broken);
  EXPECT_THAT(verdict.reasons.front(), HasSubstr("solution.cc:1: 'goto'"));
  EXPECT_FALSE(fs::exists(root() / "cache/builds"));
}

TEST_F(KernelPipeline, ARuleOfTheBinaryStopsTheRest) {
  put(root() / "own/solution.cc", scale_source + "int kept;\nint f() { return ++kept; }\n");
  const Verdict verdict = judge();
  EXPECT_EQ(verdict.kind, VerdictKind::rule_broken);
  EXPECT_THAT(verdict.reasons.front(), HasSubstr("'kept' is a writable variable"));
  EXPECT_EQ(verdict.provenance.binary_hash.size(), 64u);
  EXPECT_FALSE(bench_was_asked());
}

TEST_F(KernelPipeline, ABrokenFolderIsTheCandidatesFault) {
  put(root() / "own/params.toml", "UNROLL = 2\n");
  const Verdict verdict = judge();
  EXPECT_EQ(verdict.kind, VerdictKind::rule_broken);
  EXPECT_THAT(verdict.reasons.front(), HasSubstr("FAST"));
}

TEST_F(KernelPipeline, AProfileThatFailsCostsNoVerdict) {
  request_.profile = true;
  // What stands in for the worker from now on cannot enter a jail.
  judge_says(fmt::format("rm {0}/marathon-worker; cp {1}/verdict.json $result",
                         programs_.path().string(), root().string()));
  const Verdict verdict = judge();
  EXPECT_EQ(verdict.kind, VerdictKind::faster);
  ASSERT_TRUE(verdict.profile);
  EXPECT_EQ(verdict.profile->source, "none");
  EXPECT_THAT(verdict.profile->sentences, ElementsAre(HasSubstr("no profile: ")));
}

// ---- faults of ours are errors, never verdicts

TEST_F(KernelPipeline, WhatTheJudgeRefusesKeepsItsFault) {
  judge_says("echo 'invalid: the oracle returned 3' >&2; exit 2");
  Error found = error();
  EXPECT_EQ(found.fault, Fault::invalid);
  EXPECT_EQ(found.what, "the oracle returned 3");
  judge_says("echo 'retry: the core is taken' >&2; exit 3");
  EXPECT_EQ(error().fault, Fault::retry);
}

TEST_F(KernelPipeline, AJudgeThatCrashes) {
  judge_says("echo 'invalid: half a word' >&2; kill -SEGV $$");
  Error found = error();
  EXPECT_EQ(found.fault, Fault::system);
  EXPECT_THAT(found.what, HasSubstr("signal 11"));
  judge_says("exit 1");
  found = error();
  EXPECT_EQ(found.fault, Fault::system);
  EXPECT_THAT(found.what, HasSubstr("exit code 1"));
}

TEST_F(KernelPipeline, AJudgeThatTalksNonsense) {
  for (const char* script :
       {"echo garbage > $result", "echo '[]' > $result", "echo '{}' > $result",
        "echo '{\"verdict\": \"brilliant\"}' > $result", "exit 0", ": > $result"}) {
    judge_says(script);
    EXPECT_EQ(error().fault, Fault::system) << script;
  }
}

TEST_F(KernelPipeline, AFloodOfItsErrorsNeverBlocksIt) {
  judge_says("head -c 3000000 /dev/zero | tr '\\0' x >&2; cp " +
             (root() / "verdict.json").string() + " $result");
  EXPECT_EQ(judge().kind, VerdictKind::faster);
}

TEST_F(KernelPipeline, NoJudgeIsAnError) {
  fs::remove(programs_.path() / "marathon-judge");
  const Error found = error();
  EXPECT_EQ(found.fault, Fault::not_found);
  EXPECT_THAT(found.what, HasSubstr("./build.sh"));
}

// ---- stages

TEST_F(KernelPipeline, StagesComeWhileTheJudgeRuns) {
  // It goes on only when its stage was seen: a stage that came at the end would hang for ever.
  judge_says(fmt::format(
      "echo 'not JSON'; echo '{{\"stage\": \"check\", \"text\": \"half\", \"seconds\": 1.5}}'\n"
      "until [ -e {0}/seen ]; do :; done\n"
      "printf '{{\"stage\": \"measure\", \"text\": \"done\"}}\\n'; cp {0}/verdict.json $result",
      root().string()));
  std::vector<std::string> stages;
  const Result<Verdict> verdict = make_local_executor()->evaluate(
      request_,
      [&](const std::string& stage, const std::string& text, double) {
        stages.push_back(stage + ": " + text);
        if (stage == "check") put(root() / "seen", "");
        return Status();
      },
      {});
  ASSERT_TRUE(verdict) << verdict.error().what;
  EXPECT_THAT(stages, ElementsAre("build: built", "rules: kept", "check: half", "measure: done"));
}

TEST_F(KernelPipeline, ASinkThatFailsEndsTheEvaluation) {
  judge_says("echo '{\"stage\": \"check\", \"text\": \"\"}'; exec sleep 600");
  const Result<Verdict> verdict = make_local_executor()->evaluate(
      request_,
      [&](const std::string& stage, const std::string&, double) {
        return stage == "check" ? Status(fail(Fault::no_space, "the log is full")) : Status();
      },
      {});
  ASSERT_FALSE(verdict);
  EXPECT_EQ(verdict.error().fault, Fault::no_space);
}

TEST_F(KernelPipeline, AStopEndsTheJudge) {
  judge_says(fmt::format(
      "echo $$ > {}/pid; echo '{{\"stage\": \"check\", \"text\": \"\"}}'; exec sleep 600",
      root().string()));
  std::stop_source stop;
  const Result<Verdict> verdict = make_local_executor()->evaluate(
      request_,
      [&](const std::string& stage, const std::string&, double) {
        if (stage == "check") stop.request_stop();
        return Status();
      },
      stop.get_token());
  ASSERT_FALSE(verdict);
  EXPECT_EQ(verdict.error().fault, Fault::cancelled);
  EXPECT_NE(::kill(std::stoi(text_of(root() / "pid")), 0), 0);
}

// ---- other modes

TEST_F(KernelPipeline, NoiseOfTheBaselineAgainstItself) {
  judge_says(
      "echo '{\"value\": 1.001, \"low\": 0.998, \"high\": 1.004, \"noise\": 0.004, \"windows\": "
      "30}' > "
      "$result");
  const Result<NoiseReport> noise = measure_noise(request_, {});
  ASSERT_TRUE(noise) << noise.error().what;
  EXPECT_EQ(noise->noise, 0.004);
  EXPECT_EQ(noise->pairs, 30);
  const Json asked = *parse_json(text_of(root() / "request.json"));
  EXPECT_EQ(json_string(asked, "candidate"), json_string(asked, "baseline"));
  judge_says("echo '{}' > $result");
  EXPECT_FALSE(measure_noise(request_, {}));
}

TEST_F(KernelPipeline, ATaskIsSoundWhenItsMutantsAreRefused) {
  const std::string mutants = R"({"mutants": [
    {"mutant": "zeros", "shape": "N1000", "refused": true, "reason": "output y"},
    {"mutant": "no carried state", "shape": "N1000", "refused": false, "applicable": false}]})";
  put(root() / "mutants.json", mutants);
  const std::string script = fmt::format(
      "if grep -q '\"mode\":\"mutants\"' $request; then cp {0}/mutants.json $result\n"
      "else cp {0}/verdict.json $result; fi",
      root().string());
  judge_says(script);
  Result<TaskCheck> check = check_task(request_, {});
  ASSERT_TRUE(check) << check.error().what;
  EXPECT_TRUE(check->ok);
  ASSERT_EQ(check->mutants.size(), 3u);  // the baseline as well
  EXPECT_EQ(check->mutants[0].verdict, VerdictKind::wrong);
  EXPECT_TRUE(check->start);
  std::string weak = mutants;
  put(root() / "mutants.json", weak.replace(weak.find("true"), 4, "false"));
  check = check_task(request_, {});
  ASSERT_TRUE(check);
  EXPECT_FALSE(check->ok);
}

TEST_F(KernelPipeline, ATaskWithErrorsIsNotSoundAndSaysWhy) {
  fs::remove(root() / "task/oracle.cc");
  const Result<TaskCheck> check = check_task(request_, {});
  ASSERT_TRUE(check);
  EXPECT_FALSE(check->ok);
  std::string errors;
  for (const Diagnostic& diagnostic : check->diagnostics) {
    if (!diagnostic.warning) errors += diagnostic.message;
  }
  EXPECT_THAT(errors, HasSubstr("oracle"));
}

TEST_F(KernelPipeline, ATaskForAGpuNeedsACompilerForIt) {
  const EnvironmentVariable nvcc("NVCC", "no-such-nvcc");
  std::string text = kernel_task_text;
  text.replace(text.find("\"c++\""), 5, "\"cuda\"");
  for (size_t at; (at = text.find("solution.cc")) != std::string::npos;)
    text.replace(at, 11, "solution.cu");
  text.replace(text.find("[files]\n"), 8, "[files]\noracle = \"oracle.cu\"\n");
  put(root() / "task/task.toml", text);
  for (const char* folder : {"task/start", "task/baseline", "own"})
    fs::rename(root() / folder / "solution.cc", root() / folder / "solution.cu");
  fs::rename(root() / "task/oracle.cc", root() / "task/oracle.cu");
  EXPECT_THAT(error().what, HasSubstr("no CUDA compiler 'no-such-nvcc'"));
  const Result<TaskCheck> check = check_task(request_, {});
  ASSERT_TRUE(check) << check.error().what;
  EXPECT_TRUE(check->ok);
  EXPECT_TRUE(check->diagnostics.at(0).warning);
}

// ---- elsewhere

class Elsewhere : public testing::Test {
 protected:
  void SetUp() override {
    put(root() / "verdict.json", dump_json(good_verdict()));
    marathon_does("cp " + (root() / "verdict.json").string() + " $6");
    put_program(root() / "srun",
                "echo \"$@\" > " + (root() / "words").string() + "\nshift\nexec \"$@\"\n");
    request_.task_folder = root();
    request_.candidate_folder = root();
    request_.cache_folder = root();
    request_.result_folder = root() / "result";
  }
  const fs::path& root() const { return folder_.path(); }
  // $1 judge, $2 --request, $3 its file, $4 --result, $5 its file.
  void marathon_does(const std::string& script) {
    put_program(programs_.path() / "marathon", "set -- x \"$@\"\n" + script + "\n");
  }
  Result<Verdict> evaluate(std::stop_token stop = {}) {
    return make_slurm_executor({(root() / "srun").string(), "--gres=none"})
        ->evaluate(request_, sink_, stop);
  }

  TempFolder folder_ = temp_folder();
  ProgramFolder programs_;
  EvaluationRequest request_;
  StageSink sink_ = no_stage;
};

TEST_F(Elsewhere, ARequestGoesAndAResultComes) {
  request_.seed = 5;
  const Result<Verdict> verdict = evaluate();
  ASSERT_TRUE(verdict) << verdict.error().what;
  EXPECT_EQ(verdict->kind, VerdictKind::faster);
  EXPECT_THAT(text_of(root() / "words"), HasSubstr("--gres=none " + programs_.path().string()));
  const Result<EvaluationRequest> asked =
      request_from_json(*parse_json(text_of(root() / "result/request.json")));
  ASSERT_TRUE(asked);
  EXPECT_EQ(asked->seed, 5u);
}

TEST_F(Elsewhere, AnEarlierResultIsNoResult) {
  put(root() / "result/result.json", dump_json(good_verdict()));
  marathon_does("exit 1");
  const Result<Verdict> verdict = evaluate();
  ASSERT_FALSE(verdict);
  EXPECT_EQ(verdict.error().fault, Fault::retry);
  EXPECT_FALSE(fs::exists(root() / "result/result.json"));
}

TEST_F(Elsewhere, ExitCodesOfTheJudgeKeepTheirMeaning) {
  for (const auto& [code, fault] : {std::pair{2, Fault::invalid},
                                    {3, Fault::system},
                                    {130, Fault::cancelled},
                                    {1, Fault::retry},
                                    {77, Fault::retry}}) {
    marathon_does(fmt::format("echo why >&2; exit {}", code));
    const Result<Verdict> verdict = evaluate();
    ASSERT_FALSE(verdict);
    EXPECT_EQ(verdict.error().fault, fault) << code;
    EXPECT_THAT(verdict.error().what, HasSubstr("why"));
  }
}

TEST_F(Elsewhere, TheClusterIsFoundAndKeysAreNotTold) {
  const EnvironmentVariable key("OPENAI_API_KEY", "secret"), job("SLURM_JOB_ID", "12");
  marathon_does("[ -z \"$OPENAI_API_KEY\" ] && [ \"$SLURM_JOB_ID\" = 12 ] && cp " +
                (root() / "verdict.json").string() + " $6");
  EXPECT_TRUE(evaluate());
}

TEST_F(Elsewhere, AStopLetsSrunCancelItsJob) {
  put_program(root() / "srun", fmt::format("trap 'echo cancelled > {0}/trace; exit 1' TERM\n"
                                           "echo ready > {0}/ready\nwhile :; do sleep 0.05; done\n",
                                           root().string()));
  std::stop_source stop;
  // A second thread waits for the job to run: the call below does not return before.
  std::jthread stopper([&] {
    while (!fs::exists(root() / "ready")) std::this_thread::yield();
    stop.request_stop();
  });
  const Result<Verdict> verdict = evaluate(stop.get_token());
  ASSERT_FALSE(verdict);
  EXPECT_EQ(verdict.error().fault, Fault::cancelled);
  EXPECT_EQ(text_of(root() / "trace"), "cancelled\n");
}

// ---- the machine

TEST(Machine, EveryTopicIsNamed) {
  const TempFolder folder = temp_folder();
  std::vector<std::string> topics;
  for (const Finding& finding : examine_machine(folder.path() / "not/yet/there")) {
    topics.push_back(finding.topic);
    EXPECT_FALSE(finding.state.empty()) << finding.topic;
    EXPECT_TRUE(finding.good || !finding.advice.empty()) << finding.topic;
  }
  for (const char* topic : {"compiler", "git", "marathon-judge", "marathon-worker", "sandbox",
                            "counters", "valgrind", "objdump", "cores", "disk", "temp folder"})
    EXPECT_THAT(topics, Contains(topic));
}

TEST(Machine, WhatIsMissingComesWithAdvice) {
  const EnvironmentVariable bin("MARATHON_BIN", "/nowhere"), cxx("CXX", "no-such-compiler");
  int64_t bad = 0;
  for (const Finding& finding : examine_machine("/tmp")) {
    if (finding.topic != "compiler" && finding.topic != "marathon-judge") continue;
    EXPECT_FALSE(finding.good);
    EXPECT_FALSE(finding.advice.empty());
    ++bad;
  }
  EXPECT_EQ(bad, 2);
}

}  // namespace
}  // namespace marathon
