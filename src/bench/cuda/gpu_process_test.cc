// A replayer that another program starts.
#include "bench/cuda/gpu_process.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "base/json.h"

namespace marathon {
namespace {

using testing::HasSubstr;

// Closes what it inherited, as a launcher may, runs its words and tells how that ended.
constexpr const char* tool = "exec 3<&-; \"$@\"; echo \"report: $?\"";

GpuProcessOptions under_tool(const TempFolder& folder, const std::string& script) {
  GpuProcessOptions options;
  options.argv = {"sh",    "-c", script, "tool", (own_folder() / "marathon-worker").string(),
                  "replay"};
  options.temp_folder = folder.path();
  options.jailed = false;
  options.under_tool = true;
  options.start_limit_s = 20;
  return options;
}

TEST(UnderATool, IsAskedAndEndsInOrder) {
  const Result<TempFolder> folder = TempFolder::make("marathon-tool");
  ASSERT_TRUE(folder);
  Result<GpuProcess> process = GpuProcess::start(under_tool(*folder, tool));
  ASSERT_TRUE(process) << process.error().what;
  const GpuProcess::Answer answer = process->ask({{"do", "once"}}, 10);
  ASSERT_TRUE(answer.failure);
  EXPECT_THAT(answer.failure->why, HasSubstr("not open yet"));
  const ProcessResult result = process->finish(10);
  EXPECT_FALSE(result.timed_out);
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.out, "report: 0\n");
}

TEST(UnderATool, AToolThatDoesNotStartItSaysWhy) {
  const Result<TempFolder> folder = TempFolder::make("marathon-tool");
  ASSERT_TRUE(folder);
  const Result<GpuProcess> process =
      GpuProcess::start(under_tool(*folder, "echo no such option >&2; exit 1"));
  ASSERT_FALSE(process);
  EXPECT_THAT(process.error().what, HasSubstr("no such option"));
}

}  // namespace
}  // namespace marathon
