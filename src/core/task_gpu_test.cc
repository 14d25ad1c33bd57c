// What only tasks in CUDA or Triton may say (docs/gpu.md).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/task_fixture.h"

namespace marathon {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Case {
  std::string from, to, expected;
};

void expect_in_gpu_task(const std::vector<Case>& cases) {
  for (const Case& one : cases) {
    EXPECT_THAT(gpu_with(one.from, one.to), HasSubstr(one.expected))
        << one.from << " -> " << one.to;
  }
}

TEST(GpuTask, EveryKeyIsRead) {
  EXPECT_EQ(all_problems(gpu_task), "");
  const Task task = good_task(gpu_task);
  EXPECT_TRUE(is_gpu_task(task));
  EXPECT_TRUE(speaks(task, Language::triton));
  EXPECT_FALSE(speaks(task, Language::cpp));
  EXPECT_EQ(task.files.oracle, "oracle.cu");
  EXPECT_EQ(task.files.cpu_oracle, "oracle.cc");
  EXPECT_THAT(sources_in(task, Language::cuda), ElementsAre("solution.cu"));
  EXPECT_THAT(sources_in(task, Language::triton), ElementsAre("solution.py"));
  ASSERT_EQ(task.tensors.size(), 4u);
  EXPECT_EQ(task.tensors[1].distribution,
            (Distribution{Distribution::Kind::logit_log_uniform, 1e-3, 0.99}));
  EXPECT_TRUE(task.tensors[2].host);
  EXPECT_EQ(task.tensors[2].distribution.kind, Distribution::Kind::offsets);
  EXPECT_THAT(task.tensors[2].distribution.lengths, ElementsAre(1300, 547));
  ASSERT_TRUE(task.tensors[3].sample);
  EXPECT_EQ(task.tensors[3].sample->axis, 0);
  EXPECT_EQ(task.tensors[3].sample->count, 16);
  EXPECT_FALSE(task.shapes[0].timed);
  EXPECT_TRUE(task.shapes[1].timed);
  EXPECT_THAT(task.shapes[1].distributions.at("cu_seqlens").lengths, ElementsAre(70, 0, 7));
}

TEST(GpuTask, ATaskForACpuIsNone) {
  EXPECT_FALSE(is_gpu_task(good_task()));
  EXPECT_FALSE(is_gpu_task(good_task(command_task)));
  EXPECT_THAT(sources_in(good_task(), Language::cpp), ElementsAre("solution.cc"));
  EXPECT_EQ(good_task().files.oracle, "oracle.cc");
}

TEST(GpuTask, AnAxisIsNamedByItsExtentOrItsNumber) {
  const auto axis = [](const char* sample) {
    return good_task(replaced(std::string(gpu_task), "{ axis = \"T\", count = 16 }", sample))
        .tensors[3]
        .sample->axis;
  };
  EXPECT_EQ(axis("{ axis = \"V\", count = 1 }"), 1);
  EXPECT_EQ(axis("{ axis = 1, count = 1 }"), 1);
  EXPECT_EQ(axis("{ axis = 0, count = 1000 }"), 0);
}

TEST(GpuTask, Samples) {
  const std::string sample = "{ axis = \"T\", count = 16 }";
  const std::string output = "shape = [\"T\", \"V\"]\nsample";
  expect_in_gpu_task({
      {sample, "{ axis = \"TT\", count = 16 }",
       ":36:19: error: no axis of 'o' has the extent 'TT'; did you mean 'T'?"},
      {sample, "{ axis = 2, count = 16 }",
       ":36:19: error: 'axis' in the sample of 'o' is 2; it must be between 0 and 1"},
      {sample, "{ axis = \"T\" }", ":36:10: error: the sample of 'o' lacks 'count'"},
      {sample, "{ count = 16 }", ":36:10: error: the sample of 'o' lacks 'axis'"},
      {sample, "{ axis = \"T\", count = 0 }", "'count' in the sample of 'o' is 0"},
      {sample, "{ axis = \"T\", counts = 16, count = 1 }", "did you mean 'count'?"},
      {sample, "3", ":36:10: error: 'sample' in [[tensor]] 'o' must be a table"},
      {output, "shape = [\"T\", \"T\"]\nsample",
       ":36:19: error: 2 axes of 'o' have the extent 'T'; write the number of one, as axis = 0"},
      {output, "shape = []\nsample", "has the extent 'T'"},
      {"dtype = \"fp32\"", "dtype = \"fp32\"\nsample = { axis = 0, count = 1 }",
       "an input is not sampled"},
  });
}

TEST(GpuTask, HostTensors) {
  expect_in_gpu_task({
      {"host = true", "host = 1",
       ":29:8: error: 'host' in [[tensor]] 'cu_seqlens' must be true or false"},
      {"host = true\n", "", "'cu_seqlens' holds offsets at shape 'listed', but lacks host = true"},
      {"sample = ", "host = true\nsample = ", "an output is not known before the launches"},
      {"dtype = \"bf16\"\nshape = [\"T\", \"V\"]\n[[tensor]]\nname = \"beta\"",
       "dtype = \"fp64\"\nhost = true\nshape = [\"T\", \"V\"]\n[[tensor]]\nname = \"beta\"",
       "'x' has host = true and 236416 elements of fp64 at shape 'listed': more than 1 MiB"},
  });
}

TEST(GpuTask, Distributions) {
  const std::string logit = "kind = \"logit_log_uniform\", low = 1e-3, high = 0.99";
  const std::string lengths = "lengths = [1300, 547]";
  expect_in_gpu_task({
      {logit, "kind = \"logit_log_uniform\", low = 0, high = 0.99", "'low' in the distribution"},
      {logit, "kind = \"logit_log_uniform\", low = 0.5, high = 1", "high 1 must be below 1"},
      {logit, "kind = \"logit_log_uniform\", low = 0.9, high = 0.5", "low 0.9 is above high 0.5"},
      {logit, "kind = \"logit_log_uniform\", low = 0.5", "lacks 'high'"},
      {logit, "kind = \"logit_uniform\", low = 0.5", "did you mean 'log_uniform'?"},
      {logit, "kind = \"offsets\", lengths = [1, 2]", "fp32 would round them"},
      {lengths, "lengths = []", ":30:46: error: 'lengths' is empty"},
      {lengths, "lengths = [1300, -547]", "the length -547 is negative"},
      {lengths, "lengths = [1300, 4000000000]", "the length 4000000000 is above 2^31 - 1"},
      {lengths, "lengths = [2000000000, 2000000000]", "do not fit into int32"},
      {lengths, "lengths = [1300, 547.5]", "must hold whole numbers"},
      {lengths, "length = [1300, 547]", "did you mean 'lengths'?"},
      {lengths, "lengths = [1300, 500, 47]",
       ":40:8: error: 'cu_seqlens' has 1 axis of 3 elements at shape 'listed'; offsets of 3 "
       "lengths "
       "need one axis of 4 elements"},
      {"lengths = [70, 0, 7]", "lengths = [70, 7]", ":44:8: error: 'cu_seqlens' has 1 axis of 4"},
      {"shape = [\"N + 1\"]", "shape = [\"N + 1\", 1]", "has 2 axes of 3 elements"},
  });
}

TEST(GpuTask, TimedShapes) {
  expect_in_gpu_task({
      {"set = \"listed\"", "set = \"listed\"\ntimed = true", "listed shapes are always timed"},
      {"set = \"hidden\"", "set = \"stress\"", "stress shapes are only checked"},
      {"timed = true", "timed = \"yes\"", "'timed' in [[shape]] 'hidden' must be true or false"},
      {"T = 77", "T = 0", "is empty at the timed shape 'hidden'"},
  });
}

TEST(GpuTask, Sanitizers) {
  const auto judge = [](const std::string& text) {
    return std::string(gpu_task) + "[judge]\n" + text;
  };
  const std::string all =
      "sanitize = [\"synccheck\", \"memcheck\", \"initcheck\", \"racecheck\"]\n";
  EXPECT_THAT(good_task(judge(all)).judge.sanitize,
              ElementsAre(Sanitizer::synccheck, Sanitizer::memcheck, Sanitizer::initcheck,
                          Sanitizer::racecheck));
  EXPECT_TRUE(good_task(gpu_task).judge.sanitize.empty());
  EXPECT_TRUE(good_task(judge("sanitize = []\n")).judge.sanitize.empty());
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"sanitize = [\"memcheck\", \"racechek\"]",
       ":52:25: error: compute-sanitizer has no tool 'racechek'; did you mean 'racecheck'?"},
      {"sanitize = [\"leaks\"]",
       ":52:13: error: compute-sanitizer has no tool 'leaks'; there are memcheck, racecheck, "
       "synccheck and initcheck"},
      {"sanitize = [\"memcheck\", \"initcheck\",\n  \"memcheck\"]",
       ":53:3: error: 'memcheck' stands twice in 'sanitize'; remove one"},
      {"sanitize = \"memcheck\"", ":52:12: error: 'sanitize' in [judge] must be"},
      {"sanitize = [1]", ":52:13: error: 'sanitize' in [judge] must hold strings"},
      {"sanitise = [\"memcheck\"]", "unknown key 'sanitise' in [judge]; did you mean 'sanitize'?"},
  };
  for (const auto& [text, expected] : cases)
    EXPECT_THAT(all_problems(judge(text + "\n")), HasSubstr(expected)) << text;
}

TEST(GpuTask, Files) {
  expect_in_gpu_task({
      {"cpu_oracle = \"oracle.cc\"", "oracle = \"oracle.cc\"",
       ":7:10: error: the oracle of a GPU task is CUDA: write oracle = \"oracle.cu\""},
      {"cpu_oracle = \"oracle.cc\"", "cpu_oracle = \"oracle.cu\"", "'oracle.cu' is not C++"},
      {"cpu_oracle = \"oracle.cc\"", "cpu_oracle = \"../oracle.cc\"", "must be relative"},
      {"cpu_oracle = \"oracle.cc\"", "frozen = [\"*.cc\"]\ncpu_oracle = \"oracle.cc\"",
       "'frozen' names the oracle 'oracle.cc'"},
      {"\"solution.cu\", \"*.cuh\"", "\"*.cu\"", "'editable' names the oracle 'oracle.cu'"},
  });
  EXPECT_EQ(gpu_with("cpu_oracle = \"oracle.cc\"\n", ""), "");
}

TEST(GpuTask, SourcesAndLanguages) {
  const std::string sources = "sources = [\"solution.cu\", \"solution.py\"]";
  expect_in_gpu_task({
      {sources, "sources = [\"solution.py\"]", ":9:11: error: no source ends in .cu"},
      {sources, "sources = [\"solution.cu\"]", ":9:11: error: 0 sources end in .py"},
      {sources, "sources = [\"solution.cu\", \"a/b.py\"]",
       ":9:27: error: the module 'a/b.py' must not lie in a folder"},
      {"[\"triton\", \"cuda\"]", "\"cuda\"", ":9:27: error: the source 'solution.py' is Python"},
      {"[\"triton\", \"cuda\"]", "\"triton\"", ":9:12: error: the source 'solution.cu' is CUDA"},
      {"[\"triton\", \"cuda\"]", "[\"c++\", \"cuda\"]", ":4:12: error: \"c++\" runs on a CPU"},
      {"values = [32, 64]\nstart = 64", "flags = [\"\", \"-O2\"]\nstart = 0",
       "a Triton module is not compiled"},
  });
}

TEST(GpuTask, FlagsThatTheJudgeChoosesItself) {
  for (const char* flag :
       {"-rdc=true", "-dc", "--relocatable-device-code=true", "-arch=sm_80", "-dlto", "-lcudadevrt",
        "-gencode=arch=compute_80,code=sm_80", "--keep-dir=/tmp", "-ccbin=clang++", "-x"}) {
    EXPECT_THAT(gpu_with("\"-O3\"", "\"" + std::string(flag) + "\""),
                AllOf(HasSubstr(":10:24: error: '" + std::string(flag)), HasSubstr("remove it")));
  }
  EXPECT_EQ(gpu_with("\"-O3\"", "\"--use_fast_math\", \"-Xptxas=-v\", \"-lineinfo\""), "");
  // A macro of one task for CUDA alone may carry flags, but not those.
  std::string cuda = replaced(std::string(gpu_task), "[\"triton\", \"cuda\"]", "\"cuda\"");
  cuda = replaced(cuda, "\"solution.cu\", \"solution.py\"]", "\"solution.cu\"]");
  cuda = replaced(cuda, "values = [32, 64]\nstart = 64",
                  "flags = [\"\", \"-O2  -rdc=true\"]\nstart = 0");
  EXPECT_THAT(all_problems(cuda), HasSubstr("'-rdc=true': the judge itself chooses"));
  EXPECT_EQ(all_problems(replaced(cuda, "-rdc=true", "-maxrregcount=64")), "");
}

TEST(GpuTask, ItsKeysAreRefusedElsewhere) {
  EXPECT_THAT(kernel_with("normalize_last_axis = 1.0", "host = true"),
              HasSubstr(":35:8: error: 'host' belongs to tasks in \"cuda\" or \"triton\""));
  EXPECT_THAT(kernel_with("dtype = \"bf16\"", "dtype = \"bf16\"\nsample = { axis = 0, count = 1 }"),
              HasSubstr("'sample' belongs to tasks in"));
  EXPECT_THAT(kernel_with("set = \"hidden\"", "set = \"hidden\"\ntimed = true"),
              HasSubstr(":60:9: error: 'timed' belongs to tasks in"));
  EXPECT_THAT(kernel_with("oracle = \"oracle.cc\"", "cpu_oracle = \"other.cc\""),
              HasSubstr("'cpu_oracle' belongs to tasks in"));
  EXPECT_THAT(kernel_with("[profile]", "[judge]\nsanitize = [\"memcheck\"]\n[profile]"),
              HasSubstr(":111:12: error: 'sanitize' belongs to tasks in \"cuda\" or \"triton\""));
  EXPECT_THAT(command_with("[command]\n", "[judge]\nsanitize = [\"memcheck\"]\n[command]\n"),
              HasSubstr(":7:1: error: 'judge' belongs to kind = \"kernel\""));
  EXPECT_THAT(command_with("[files]\n", "[files]\ncpu_oracle = \"o.cc\"\n"),
              HasSubstr("a command task has no oracle"));
}

TEST(GpuTask, ParametersReachAModule) {
  const Task task = good_task(gpu_task);
  EXPECT_EQ(to_params_module(task, {{"CHUNK", 32}}), "CHUNK = 32\n");
  EXPECT_THAT(words_of("  -a   -b\t-c "), ElementsAre("-a", "-b", "-c"));
}

}  // namespace
}  // namespace marathon
