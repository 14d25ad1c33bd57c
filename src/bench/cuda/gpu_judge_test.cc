// The whole judge of a GPU on the fake driver: what each kind of candidate is told.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "bench/cuda/gpu_fixture.h"

namespace marathon {
namespace {

using testing::HasSubstr;
using testing::Not;

class GpuJudge : public testing::Test {
 protected:
  static Json with(Json request, const Json& changes) {
    request.update(changes);
    return request;
  }
  Verdict judge(const std::string& body, const std::string& faults = "") const {
    return toy_.judged(toy_.request(toy_.candidate(body)), faults);
  }
  static std::string why(const Verdict& verdict) {
    return verdict.reasons.empty() ? "" : verdict.reasons.front();
  }
  static void expect(const Verdict& verdict, VerdictKind kind, const std::string& words) {
    EXPECT_EQ(to_string(verdict.kind), to_string(kind)) << words << ": " << why(verdict);
    EXPECT_THAT(why(verdict), HasSubstr(words));
  }

  GpuToy toy_;
};

TEST_F(GpuJudge, AFasterCandidateIsMeasuredTwice) {
  const Verdict verdict = toy_.judged(toy_.request(toy_.honest(200)));
  expect(verdict, VerdictKind::faster, "times the speed of the baseline");
  EXPECT_TRUE(verdict.confirmed);
  EXPECT_NEAR(verdict.speedup.value, 41.0 / 21, 1e-4);
  ASSERT_EQ(verdict.shapes.size(), 4u);
  EXPECT_EQ(verdict.shapes[0].name, "R64-C100");
  EXPECT_NEAR(verdict.shapes[0].time_us, 210, 1e-3);
  EXPECT_NEAR(verdict.shapes[0].baseline_us, 410, 1e-3);
  EXPECT_NEAR(verdict.shapes[0].warm_us, 210, 1e-3);
  EXPECT_GT(verdict.shapes[0].outputs.at(0).bound, 0);
  EXPECT_EQ(verdict.shapes[2].time_us, 0);  // hidden: checked only
  EXPECT_EQ(verdict.provenance.restarts, 4);
  ASSERT_TRUE(verdict.provenance.gpu.has_value());
  EXPECT_THAT(verdict.provenance.gpu->name, HasSubstr("Fake H200"));
}

TEST_F(GpuJudge, AsFastIsTheSameAndHalfAsFastIsSlower) {
  expect(toy_.judged(toy_.request(toy_.honest(400))), VerdictKind::same, "no difference");
  const Verdict slower = toy_.judged(toy_.request(toy_.honest(800)));
  expect(slower, VerdictKind::slower, "times the speed of the baseline");
  EXPECT_NEAR(slower.speedup.value, 41.0 / 81, 1e-4);
}

TEST_F(GpuJudge, AClearLossAgainstTheIncumbentEndsEarly) {
  const Verdict verdict = toy_.judged(with(
      toy_.request(toy_.honest(400)), {{"incumbent", toy_.honest(200).string()}, {"race", true}}));
  expect(verdict, VerdictKind::slower, "times the speed of the incumbent");
  EXPECT_TRUE(verdict.decided_early);
  EXPECT_EQ(verdict.provenance.restarts, 1);
  EXPECT_NEAR(verdict.gain.value, 21.0 / 41, 1e-4);
}

TEST_F(GpuJudge, AQuickLookNeverPromotes) {
  const Verdict verdict = toy_.judged(with(toy_.request(toy_.honest(200)), {{"effort", "quick"}}));
  EXPECT_EQ(verdict.kind, VerdictKind::faster);
  EXPECT_FALSE(verdict.confirmed);
  ASSERT_EQ(verdict.shapes.size(), 2u);
  EXPECT_EQ(verdict.shapes[1].set, "stress");
}

// ---- hidden shapes that are timed

class TimedHidden : public GpuJudge {
 protected:
  TimedHidden() { toy_.change_task({{"set = \"hidden\"", "set = \"hidden\"\ntimed = true"}}); }
};

TEST_F(TimedHidden, WhoIsFastThereTooIsFaster) {
  const Verdict verdict = toy_.judged(toy_.request(toy_.honest(200)));
  expect(verdict, VerdictKind::faster, "times the speed of the baseline");
  EXPECT_TRUE(verdict.confirmed);
  EXPECT_THAT(verdict.reasons, testing::Contains(HasSubstr("100 % of the 1.952 times")));
  EXPECT_NEAR(verdict.shapes[2].time_us, 210, 1e-3);
  EXPECT_NEAR(verdict.shapes[2].baseline_us, 410, 1e-3);
  EXPECT_EQ(verdict.shapes[2].samples.candidate_ns.size(), 4u);
  EXPECT_THAT(dump_json(to_public_json(verdict)), Not(HasSubstr("odd")));
}

TEST_F(TimedHidden, WhoIsFastAtTheListedShapesAloneIsRefused) {
  const Verdict verdict = judge(
      "launch(R == 17 ? \"scale_f32_400\" : \"scale_f32_200\", stream, x, y, R * C, 2.0f);"
      "launch(\"copy_10\", stream, x, c, R * C * 4);");
  expect(
      verdict, VerdictKind::rule_broken,
      "1.000 times the speed of the baseline, 51 % of the 1.952 times on the listed ones: it must "
      "keep 85 %");
  EXPECT_FALSE(verdict.confirmed);
  EXPECT_THAT(why(verdict), Not(HasSubstr("odd")));
  EXPECT_THAT(why(verdict), Not(HasSubstr("17")));
}

TEST_F(TimedHidden, AQuickLookDoesNotTimeThem) {
  const Verdict verdict = toy_.judged(with(toy_.request(toy_.honest(200)), {{"effort", "quick"}}));
  EXPECT_EQ(verdict.shapes.size(), 2u);
}

TEST_F(GpuJudge, WrongOutputs) {
  expect(judge("launch(\"scale_f32_200\", stream, x, y, R * C, 3.0f);"
               "launch(\"copy_10\", stream, x, c, R * C * 4);"),
         VerdictKind::wrong, "output y: relative error 5.00e-01");
  // Nothing written: random bits.
  expect(judge("launch(\"scale_f32_200\", stream, x, y, R * C, 2.0f);"), VerdictKind::wrong,
         "output c");
  // A sampled output is looked at wherever the secret rows are.
  expect(judge("launch(\"scale_f32_200\", stream, x, y, R * C, 2.0f);"
               "launch(\"copy_10\", stream, x, c, R * C * 2);"),
         VerdictKind::wrong, "output c");
}

TEST_F(GpuJudge, AHiddenShapeIsNotNamed) {
  const Verdict verdict =
      judge(GpuToy::honest_body(200) + "if (R == 17) launch(\"fill32_1\", stream, y, R, 0);");
  expect(verdict, VerdictKind::wrong, "a hidden shape: output y");
  EXPECT_EQ(why(verdict).find("odd"), std::string::npos);
  EXPECT_EQ(why(verdict).find("R "), std::string::npos) << why(verdict);
}

TEST_F(GpuJudge, OverrunsTouchCanaries) {
  expect(judge(GpuToy::honest_body(200) + "launch(\"fill32_1\", stream, y, R * C + 1, 0);" +
               GpuToy::honest_body(200)),
         VerdictKind::wrong, "behind output y");
}

// R C is odd at R17-C33 alone: 4 bytes behind the last output's end are in the same word of 8 as
// it.
TEST_F(GpuJudge, OverrunsOfOneElementTouchCanaries) {
  const std::string past = "if (R == 17) launch(\"fill32_1\", stream, {}, R * C + 1, 0);";
  for (const char* output : {"y", "c"}) {
    std::string one_past = past;
    one_past.replace(one_past.find("{}"), 2, output);
    expect(judge(one_past + GpuToy::honest_body(200)), VerdictKind::wrong,
           std::string(" bytes behind output ") + output);
  }
}

TEST_F(GpuJudge, OverrunsOfOneByteTouchCanaries) {
  // Copies end where they are told to: a byte behind y, and the byte before it.
  expect(judge("launch(\"copy_10\", stream, x, y, R * C * 4 + 1);" + GpuToy::honest_body(200)),
         VerdictKind::wrong, "it wrote 1 bytes behind output y");
  expect(
      judge("launch(\"copy_10\", stream, x, (char*)c - 1, (int64_t)4);" + GpuToy::honest_body(200)),
      VerdictKind::wrong, "it wrote 1 bytes before output c");
}

// 13 bytes are given as 16: they are overwritten in whole words.
TEST_F(GpuJudge, OverrunsOfTheWorkspaceTouchCanaries) {
  const std::string asks =
      "extern \"C\" int64_t marathon_workspace_bytes(const int64_t*, int64_t) { return 13; }\n";
  const auto writes = [&](const char* bytes) {
    return toy_.judged(toy_.request(
        toy_.candidate(std::string("launch(\"copy_10\", stream, x, args->workspace, (int64_t)") +
                           bytes + ");" + GpuToy::honest_body(200),
                       asks)));
  };
  expect(writes("17"), VerdictKind::wrong, "it wrote 1 bytes behind its workspace");
  expect(writes("16"), VerdictKind::faster, "times the speed of the baseline");
}

TEST_F(GpuJudge, AnIllegalAccessIsTheCandidates) {
  expect(judge("launch(\"fill32_1\", stream, y, (int64_t)1 << 40, 0);"), VerdictKind::crashed,
         "CUDA_ERROR_ILLEGAL_ADDRESS");
}

TEST_F(GpuJudge, WritingAnInputIsAnIllegalAccessInTheReplayer) {
  expect(judge(GpuToy::honest_body(200) + "launch(\"fill32_1\", stream, x, R * C, 0);"),
         VerdictKind::crashed, "CUDA_ERROR_ILLEGAL_ADDRESS");
}

TEST_F(GpuJudge, ARefusalOfItsOwnCode) {
  expect(judge("return 7;"), VerdictKind::rule_broken, "marathon_run returned 7");
}

TEST_F(GpuJudge, AKernelOfNoCubinIsRefused) {
  const Json request = with(toy_.request(toy_.honest(200)), {{"candidate_cubins", Json::array()}});
  expect(toy_.judged(request), VerdictKind::rule_broken, "kernel scale_f32_200 is none that this");
}

// The start of a worker is not a candidate's to use up: only its first answer may wait for it.
TEST_F(GpuJudge, AHangOnDecoysIsEndedAfterItsTime) {
  expect(judge(GpuToy::honest_body(200) + "launch(\"hang_1\", stream);"), VerdictKind::timed_out,
         "it took longer than 2.0 s");
  const Verdict second = toy_.judged(toy_.request(toy_.candidate(
      GpuToy::honest_body(200),
      "#include <unistd.h>\nextern \"C\" int64_t marathon_workspace_bytes(const int64_t* dims, "
      "int64_t) { if (dims[0] == 20) for (;;) pause(); return 0; }\n")));
  expect(second, VerdictKind::timed_out, "it took longer than 1.0 s");
}

// It ends on decoys, the first of three calls a shape, and never in a replay.
TEST_F(GpuJudge, AHangingReplayIsEndedAfterItsTime) {
  expect(judge("static int calls;" + GpuToy::honest_body(200) +
               "if (calls++ % 3 == 1) launch(\"hang_1\", stream);"),
         VerdictKind::timed_out, "it took longer than 6.0 s");
}

TEST_F(GpuJudge, WorkThatNoEventSeesIsSuspicious) {
  expect(judge("launch(\"doze_1\", stream, x, y, R * C, 2.0f);"
               "launch(\"copy_10\", stream, x, c, R * C * 4);"),
         VerdictKind::suspicious, "two clocks disagree");
}

TEST_F(GpuJudge, AGpuThatIsSharedMeasuresNothing) {
  expect(toy_.judged(toy_.request(toy_.honest(200)), "shared"), VerdictKind::ambiguous,
         "another program uses this GPU");
}

// ---- the machine's own faults

TEST_F(GpuJudge, AWorkspaceBeyondTheGpusMemoryIsTheCandidates) {
  const Verdict verdict =
      toy_.judged(toy_.request(toy_.candidate(GpuToy::honest_body(200),
                                              "extern \"C\" int64_t marathon_workspace_bytes(const "
                                              "int64_t*, int64_t) { return 3ll << 30; }\n")));
  expect(verdict, VerdictKind::rule_broken, "2 times a workspace of 3.22 GB");
}

TEST_F(GpuJudge, BrokenMemoryIsNobodysFault) {
  expect(toy_.judged(toy_.request(toy_.honest(200)), "only=replay,ecc_at=30"),
         VerdictKind::ambiguous, "CUDA_ERROR_ECC_UNCORRECTABLE");
  const ProcessResult own =
      toy_.run_judge(toy_.request(toy_.honest(200)), "only=--request,ecc_at=30");
  EXPECT_EQ(own.exit_code, 3);
  EXPECT_THAT(own.err, HasSubstr("CUDA_ERROR_ECC_UNCORRECTABLE"));
}

TEST_F(GpuJudge, AFullGpuIsNobodysFault) {
  expect(toy_.judged(toy_.request(toy_.honest(200)), "only=replay,oom_after=0"),
         VerdictKind::ambiguous, "CUDA_ERROR_OUT_OF_MEMORY");
  const ProcessResult own =
      toy_.run_judge(toy_.request(toy_.honest(200)), "only=--request,oom_after=2");
  EXPECT_EQ(own.exit_code, 3);
  EXPECT_THAT(own.err, HasSubstr("no_space: could not"));
}

TEST_F(GpuJudge, WithoutAFitGpuASentenceSaysWhatToDo) {
  const std::pair<const char*, const char*> machines[] = {
      {"no_device", "not_found: the NVIDIA driver sees no GPU: look at nvidia-smi"},
      {"old_driver", "invalid: this NVIDIA driver is for CUDA 12.2, too old: install driver 550"},
      {"cc=8.0", "invalid: Fake H200 has compute capability 8.0: Marathon judges on 9.0"},
  };
  for (const auto& [faults, words] : machines) {
    for (const char* mode : {"device", "peaks", "evaluate", "noise"}) {
      const ProcessResult result =
          toy_.run_judge(with(toy_.request(toy_.honest(200)), {{"mode", mode}}), faults);
      EXPECT_EQ(result.exit_code, 2) << faults << " " << mode;
      EXPECT_THAT(result.err, HasSubstr(words)) << mode;
    }
  }
}

// ---- a replay under a tool

// One that runs its words, tells how they ended and takes the exit code that it is given.
class UnderATool : public GpuJudge {
 protected:
  Json once(const std::string& body, const std::string& script, double limit_s = 20) {
    return toy_.answer(
        with(toy_.request(toy_.candidate(body)), {{"mode", "run-once"},
                                                  {"shape", "R20-C300"},
                                                  {"tool", {"/bin/sh", "-c", script, "tool"}},
                                                  {"tool_limit_s", limit_s}}));
  }
  static constexpr const char* honest_tool = "\"$@\"; echo \"report: $?\"; exit 5";
};

TEST_F(UnderATool, AnHonestReplayEndsInOrder) {
  const Json answer = once(GpuToy::honest_body(200), honest_tool);
  EXPECT_EQ(json_string(answer, "output"), "report: 0\n");
  EXPECT_EQ(json_int(answer, "exit_code"), 5);
  EXPECT_FALSE(json_bool(answer, "timed_out"));
  EXPECT_FALSE(answer.contains("failure"));
  EXPECT_GT(json_int(answer.at("inputs"), "bytes"), 0);
}

// The tool has its report at the end of the process, which must come although its context is lost.
TEST_F(UnderATool, AfterAFailureTheToolStillReports) {
  const Json answer =
      once(GpuToy::honest_body(200) + "launch(\"fill32_1\", stream, x, R * C, 0);", honest_tool);
  EXPECT_THAT(json_string(answer, "failure"), HasSubstr("CUDA_ERROR_ILLEGAL_ADDRESS"));
  EXPECT_THAT(json_string(answer, "output"), HasSubstr("report: 0\n"));
  EXPECT_EQ(json_int(answer, "exit_code"), 5);
  EXPECT_FALSE(json_bool(answer, "timed_out"));
}

TEST_F(UnderATool, OneThatDoesNotEndIsEnded) {
  const Json answer = once(GpuToy::honest_body(200), "\"$@\"; exec sleep 600", 1);
  EXPECT_TRUE(json_bool(answer, "timed_out"));
}

// ---- the task's own checker

std::map<std::string, Json> mutants_at(const Json& answer, const std::string& shape) {
  std::map<std::string, Json> found;
  if (!answer.contains("mutants")) return found;
  for (const Json& mutant : answer.at("mutants"))
    if (json_string(mutant, "shape") == shape) found[json_string(mutant, "mutant")] = mutant;
  return found;
}

TEST_F(GpuJudge, MutantsOfAnHonestOutputAreRefused) {
  const Json answer = toy_.answer(with(toy_.request(toy_.honest(200)), {{"mode", "mutants"}}));
  for (const char* shape : {"R64-C100", "R20-C300"}) {
    const std::map<std::string, Json> mutants = mutants_at(answer, shape);
    ASSERT_GE(mutants.size(), 22u);
    for (const auto& [name, mutant] : mutants) {
      EXPECT_TRUE(json_bool(mutant, "refused")) << name << ": " << json_string(mutant, "reason");
      // Nothing is carried from row to row, and nothing is summed.
      const bool applies = name != "forgets the first half" && name != "leaves out half of a sum";
      EXPECT_EQ(json_bool(mutant, "applicable"), applies) << name;
    }
  }
  EXPECT_TRUE(mutants_at(answer, "odd").empty()) << "hidden shapes are not named";
}

TEST_F(GpuJudge, ACheckerThatLetsTooMuchPassIsFound) {
  toy_.change_task({{"minimum = 1e-6", "minimum = 0.5"}, {"cap = 1e-5", "cap = 0.5"}});
  const Json answer = toy_.answer(with(toy_.request(toy_.honest(200)), {{"mode", "mutants"}}));
  std::map<std::string, Json> mutants = mutants_at(answer, "R64-C100");
  for (const char* name : {"one row twice as large", "one zeroed row"}) {
    EXPECT_FALSE(json_bool(mutants[name], "refused", true)) << name;
    EXPECT_THAT(json_string(mutants[name], "reason"),
                HasSubstr("output y passed with an error of"));
  }
  for (const char* name : {"zeros", "sign flipped", "one NaN", "never written"})
    EXPECT_TRUE(json_bool(mutants[name], "refused")) << name;
}

TEST_F(GpuJudge, AStartThatIsWrongHasNoMutants) {
  const ProcessResult result = toy_.run_judge(
      with(toy_.request(toy_.candidate("launch(\"scale_f32_200\", stream, x, y, R * C, 3.0f);"
                                       "launch(\"copy_10\", stream, x, c, R * C * 4);")),
           {{"mode", "mutants"}}));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("the starting solution fails at shape R64-C100: output y"));
}

// ---- the other modes

TEST_F(GpuJudge, TheDeviceIsDescribed) {
  const Json device = toy_.answer({{"mode", "device"}});
  EXPECT_EQ(json_string(device, "name"), "Fake H200");
  EXPECT_EQ(json_int(device, "compute_capability"), 90);
}

TEST_F(GpuJudge, PeaksAreThoseOfTheFake) {
  const Json peaks =
      toy_.answer({{"mode", "peaks"}, {"judge_cubin", (toy_.folder() / "judge.cubin").string()}});
  EXPECT_NEAR(json_double(peaks, "memory_gbytes_s"), 4000, 20);
  EXPECT_NEAR(json_double(peaks, "gflops"), 1.073e6, 0.01e6);
}

TEST_F(GpuJudge, TheBaselineAgainstItselfIsAsFast) {
  const Json noise = toy_.answer(with(toy_.request(toy_.honest(400)), {{"mode", "noise"}}));
  EXPECT_NEAR(json_double(noise, "value"), 1, 1e-4);
  EXPECT_NEAR(json_double(noise, "noise"), 0.001, 1e-4);
  const Json pairs = toy_.answer(
      with(toy_.request(toy_.honest(400)), {{"mode", "pairs"}, {"pairs", 2}, {"noise", 0.001}}));
  EXPECT_EQ(json_int(pairs, "called_different", -1), 0);
}

}  // namespace
}  // namespace marathon
