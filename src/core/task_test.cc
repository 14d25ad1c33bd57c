#include "core/task.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "base/file.h"
#include "core/task_fixture.h"

namespace marathon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(Task, EveryKeyOfAKernelTaskIsRead) {
  const Task task = good_task();
  EXPECT_EQ(all_problems(kernel_task), "");
  EXPECT_EQ(task.name, "kda-cpu");
  EXPECT_EQ(task.title, "KDA forward on one CPU core");
  EXPECT_EQ(task.kind, TaskKind::kernel);
  EXPECT_THAT(task.languages, ElementsAre(Language::cpp));
  EXPECT_EQ(task.target.speedup, 3);
  EXPECT_EQ(task.target.text, "at least 3 x the baseline");
  EXPECT_THAT(task.files.editable, ElementsAre("solution.cc", "params.toml"));
  EXPECT_THAT(task.files.frozen, ElementsAre("kda.h"));
  EXPECT_TRUE(task.files.baseline_visible);
  EXPECT_THAT(task.build.sources, ElementsAre("solution.cc"));
  EXPECT_THAT(task.build.flags, ElementsAre("-std=c++20", "-O3"));
  EXPECT_EQ(task.build.timeout_s, 100);
  EXPECT_EQ(task.build.max_memory_bytes, 2048LL << 20);
  EXPECT_THAT(task.dims, ElementsAre("B", "T", "K"));
  ASSERT_EQ(task.tensors.size(), 3u);
  EXPECT_EQ(task.tensors[0].distribution, (Distribution{Distribution::Kind::normal, 0, 2}));
  EXPECT_EQ(task.tensors[0].normalize_last_axis, 1);
  EXPECT_EQ(task.tensors[1].distribution, (Distribution{Distribution::Kind::integers, 0, 9}));
  EXPECT_EQ(task.tensors[2].role, Role::output);
  EXPECT_EQ(task.tensors[2].dtype, DType::bf16);
  ASSERT_EQ(task.shapes.size(), 2u);
  EXPECT_EQ(task.shapes[0].weight, 2);
  EXPECT_EQ(task.shapes[0].distributions.at("q"),
            (Distribution{Distribution::Kind::constant, -5, 0}));
  EXPECT_EQ(task.shapes[1].set, ShapeSet::hidden);
  EXPECT_EQ(task.tolerance.factor, 1.5);
  EXPECT_EQ(task.tolerance.minimum, 1e-7);
  EXPECT_EQ(task.tolerance.cap.at("o"), 1e-4);
  EXPECT_EQ(task.tolerance.worst_element_factor, 20);
  EXPECT_EQ(task.floor.flops->text(), "B*T*7*K");
  EXPECT_EQ(task.floor.bytes->text(), "B*T*K*8");
  ASSERT_EQ(task.parameters.size(), 3u);
  EXPECT_THAT(task.parameters[0].values, ElementsAre(8, 16, 32));
  EXPECT_EQ(task.parameters[0].help, "tokens a chunk");
  EXPECT_EQ(task.parameters[2].kind, Parameter::Kind::flag);
  EXPECT_THAT(task.parameters[2].values, ElementsAre(0, 1, 2));
  EXPECT_EQ(task.constraints.at(0).text(), "FORM == 1 || CHUNK == 16");
  EXPECT_THAT(task.rules.forbidden_text, ElementsAre("\\bsystem\\s*\\("));
  EXPECT_THAT(task.rules.allowed_libraries, ElementsAre("libgomp.so.1"));
  EXPECT_EQ(task.rules.max_source_bytes, 1000);
  EXPECT_EQ(task.measure.cache, CacheState::cold);
  EXPECT_EQ(task.budget.evaluations, 60);
  EXPECT_EQ(task.budget.tool_calls, 7);
  EXPECT_EQ(task.budget.hours, 1.5);
  EXPECT_FALSE(task.profile.on_new_best);
  EXPECT_EQ(task.profile.shape, "T512");
}

TEST(Task, EveryKeyOfACommandTaskIsRead) {
  const Task task = good_task(command_task);
  EXPECT_EQ(all_problems(command_task), "");
  EXPECT_EQ(task.kind, TaskKind::command);
  EXPECT_EQ(task.title, "bundle");
  EXPECT_THAT(task.command.build, ElementsAre("make", "-s"));
  EXPECT_THAT(task.command.check, ElementsAre("./check.sh"));
  EXPECT_THAT(task.command.measure, ElementsAre("./measure.sh"));
  EXPECT_EQ(task.command.metric_regex, "total: (\\d+)");
  EXPECT_EQ(task.command.unit, "bytes");
  EXPECT_EQ(task.command.direction, Direction::minimize);
  EXPECT_EQ(task.command.repeats, 3);
  EXPECT_EQ(task.command.min_gain, 0.01);
  EXPECT_TRUE(task.command.interleave);
  const std::string json =
      replaced(std::string(command_task), "{ regex = 'total: (\\d+)' }", "{ json = \"/a~1b/0\" }");
  EXPECT_EQ(good_task(json).command.metric_json, "/a~1b/0");
}

TEST(Task, Languages) {
  EXPECT_THAT(kernel_with("language = \"c++\"", "language = \"cpp\""),
              StartsWith("task.toml:5:12: error: unknown language 'cpp'; did you mean 'c++'?"));
  EXPECT_THAT(kernel_with("language = \"c++\"", "language = []"), HasSubstr("empty list"));
  EXPECT_THAT(kernel_with("language = \"c++\"", "language = [\"c++\", \"c++\"]"),
              HasSubstr("stands twice"));
}

TEST(Task, UnknownKeysAreErrorsWithASuggestion) {
  EXPECT_EQ(kernel_with("sources =", "sorces ="),
            "task.toml:20:1: error: [build] lacks 'sources'; name the files that are compiled\n"
            "task.toml:21:1: error: unknown key 'sorces' in [build]; did you mean 'sources'?\n");
  EXPECT_EQ(kernel_with("speedup = 3.0", "speedup = 3.0\nSpeedUp = 1"),
            "task.toml:10:1: error: unknown key 'SpeedUp' in [target]; did you mean 'speedup'?\n");
  EXPECT_EQ(kernel_with("[budget]", "[bugdet]"),
            "task.toml:105:2: error: unknown key 'bugdet' in the task; did you mean 'budget'?\n");
  EXPECT_EQ(kernel_with("hours = 1.5", "zzzzzzzzz = 1"),
            "task.toml:108:1: error: unknown key 'zzzzzzzzz' in [budget]; there are evaluations, "
            "tool_calls, hours, usd and tokens\n");
  EXPECT_THAT(kernel_with("std = 2.0", "sdt = 2.0"), HasSubstr("did you mean 'std'?"));
  EXPECT_THAT(kernel_with("dims = { B = 1, T = 512", "dims = { B = 1, TT = 512"),
              HasSubstr("unknown key 'TT' in the dims of [[shape]] 'T512'; did you mean 'T'?"));
}

TEST(Task, AllErrorsAreReportedInTheOrderOfTheFile) {
  std::string text = replaced(std::string(kernel_task), "speedup = 3.0", "speedup = \"x\"");
  text = replaced(text, "rounds = 6", "rounds = 0");
  text = replaced(text, "role = \"output\"", "role = \"outptu\"");
  EXPECT_EQ(all_problems(text),
            "task.toml:9:11: error: 'speedup' in [target] must be a number, but is a string\n"
            "task.toml:29:1: error: no tensor is an output; nothing could be checked\n"
            "task.toml:46:8: error: unknown role 'outptu'; did you mean 'output'?\n"
            "task.toml:65:9: error: unknown key 'o' in 'cap' in [tolerance]; there is none\n"
            "task.toml:101:10: error: 'rounds' in [measure] is 0; it must be between 1 and 1000\n");
}

// The page that people copy from must not rot.
TEST(Task, TheExamplesOfTheDocumentationAreSound) {
  const std::string page =
      read_file(std::filesystem::path(MARATHON_SOURCE_DIR) / "docs/task-format.md").value();
  int64_t examples = 0;
  for (size_t at = page.find("```toml\n"); at != std::string::npos;
       at = page.find("```toml\n", at + 1)) {
    const size_t start = at + 8;
    EXPECT_EQ(all_problems(page.substr(start, page.find("```", start) - start)), "");
    ++examples;
  }
  EXPECT_EQ(examples, 3);
}

TEST(Task, TheShippedTasksAreSound) {
  const std::filesystem::path tasks = std::filesystem::path(MARATHON_SOURCE_DIR) / "tasks";
  const std::vector<std::filesystem::path> files = list_files(tasks).value();
  int64_t count = 0;
  for (const std::filesystem::path& file : files) {
    if (file.filename() != "task.toml") continue;
    EXPECT_EQ(all_problems(read_file(tasks / file).value()), "") << file;
    ++count;
  }
  EXPECT_GE(count, 2);
}

}  // namespace
}  // namespace marathon
