#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/task_fixture.h"

namespace marathon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(Shapes, ExtentsFollowTheDims) {
  const Task task = good_task();
  EXPECT_EQ(dims_of(task, task.shapes[1]), (std::vector<int64_t>{2, 77, 64}));
  EXPECT_EQ(extents_of(task, task.tensors[0], task.shapes[1]).value(),
            (std::vector<int64_t>{2, 78, 64}));
  EXPECT_EQ(elements_of(task, task.tensors[0], task.shapes[1]).value(), 2 * 78 * 64);
}

TEST(Shapes, AnEmptyAxisBeatsOverflowAndNegativesAreErrors) {
  const Task task = good_task();
  Shape shape = task.shapes[0];
  shape.dims = {{"B", 1LL << 40}, {"T", 1LL << 40}, {"K", 0}};
  EXPECT_EQ(elements_of(task, task.tensors[2], shape).value(), 0);
  shape.dims["K"] = 1;
  EXPECT_THAT(elements_of(task, task.tensors[2], shape).error().what,
              HasSubstr("more than 2^63 elements"));
  shape.dims["K"] = -1;
  EXPECT_THAT(elements_of(task, task.tensors[2], shape).error().what,
              HasSubstr("'K' of tensor 'o' is -1"));
  shape.dims.erase("K");
  EXPECT_THAT(elements_of(task, task.tensors[2], shape).error().what,
              HasSubstr("'K' in 'K' is not declared"));
}

TEST(Configurations, ValidityNeedsEveryParameterAndEveryConstraint) {
  const Task task = good_task();
  const Configuration start = start_configuration(task);
  EXPECT_EQ(start, (Configuration{{"CHUNK", 16}, {"FORM", 1}, {"FLAGS", 0}}));
  EXPECT_TRUE(is_valid(task, start));
  Configuration other = start;
  other["FORM"] = 0;
  EXPECT_TRUE(is_valid(task, other));
  other["CHUNK"] = 8;
  EXPECT_FALSE(is_valid(task, other)) << "the constraint";
  other = start;
  other["CHUNK"] = 9;
  EXPECT_FALSE(is_valid(task, other)) << "not one of its values";
  other = start;
  other["MORE"] = 1;
  EXPECT_FALSE(is_valid(task, other)) << "a name too many";
  other = start;
  other.erase("FORM");
  EXPECT_FALSE(is_valid(task, other)) << "a name too few";
}

TEST(Configurations, GoThroughParamsTomlAndBack) {
  const Task task = good_task();
  Configuration configuration = start_configuration(task);
  configuration["CHUNK"] = 32;
  const std::string text = to_params_toml(task, configuration);
  EXPECT_EQ(text, "CHUNK = 32\nFORM = 1\nFLAGS = 0\n");
  EXPECT_EQ(parse_params_toml(task, text).value(), configuration);
  EXPECT_EQ(
      parse_params_toml(task, "# best\n\n  CHUNK=32 # tiling\r\nFLAGS = 0\nFORM\t= 1").value(),
      configuration);
}

TEST(Configurations, ParamsTomlErrorsNameTheLine) {
  const Task task = good_task();
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"CHUNK = 32\nFORM 1\n", "params.toml line 2: expected NAME = integer, but found 'FORM 1'"},
      {"CHUNCK = 32", "params.toml line 1: unknown parameter 'CHUNCK'; did you mean 'CHUNK'?"},
      {"CHUNK = 33", "params.toml line 1: CHUNK = 33 is not one of its values: 8 16 32"},
      {"CHUNK = 32.0", "params.toml line 1: CHUNK needs a whole number, but found '32.0'"},
      {"CHUNK = ", "params.toml line 1: CHUNK needs a whole number, but found ''"},
      {"CHUNK = 0x10", "params.toml line 1: CHUNK needs a whole number, but found '0x10'"},
      {"CHUNK = 8\n#\nCHUNK = 8",
       "params.toml line 3: CHUNK stands here a second time; remove one"},
      {"CHUNK = 8\n",
       "params.toml line 1: the file ends, but parameters are missing; add FORM = 1, FLAGS = 0"},
      {"", "params.toml line 1: the file ends, but parameters are missing; add CHUNK = 16"},
      {"CHUNK = 99999999999999999999", "params.toml line 1: CHUNK needs a whole number"},
      {"[x]\n", "params.toml line 1: expected NAME = integer, but found '[x]'"},
  };
  for (const auto& [text, message] : cases) {
    const Result<Configuration> parsed = parse_params_toml(task, text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error().fault, Fault::invalid);
    EXPECT_THAT(parsed.error().what, StartsWith(message));
  }
}

TEST(Configurations, BuildWordsAreMacrosAndSplitFlags) {
  const Task task = good_task();
  Configuration configuration = start_configuration(task);
  EXPECT_THAT(build_words(task, configuration), ElementsAre("-DCHUNK=16", "-DFORM=1"));
  configuration["FLAGS"] = 2;
  EXPECT_THAT(build_words(task, configuration),
              ElementsAre("-DCHUNK=16", "-DFORM=1", "-funroll-loops", "-O2"));
}

}  // namespace
}  // namespace marathon
