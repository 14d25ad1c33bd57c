// For the tests of what runs one of NVIDIA's tools around a replay: a task in CUDA, and a
// marathon-judge that starts the tool with nothing behind it.
#pragma once

#include "judge/gpu_tool.h"
#include "judge/judge_fixture.h"

namespace marathon {

class GpuToolTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!find_nvcc()) GTEST_SKIP() << "no nvcc here";
    put_kernel_task(root() / "task");
    std::string text = text_of(root() / "task/task.toml");
    text.replace(text.find("\"c++\""), 5, "\"cuda\"");
    for (size_t at = text.find(".cc"); at != std::string::npos; at = text.find(".cc"))
      text.replace(at, 3, ".cu");
    put(root() / "task/task.toml", text);
    for (const char* name : {"oracle", "start/solution", "baseline/solution"})
      fs::rename(root() / "task" / (name + std::string(".cc")),
                 root() / "task" / (name + std::string(".cu")));
    put(root() / "task/oracle.cu", R"(#include "marathon_kernel.h"
extern "C" int marathon_oracle(const MarathonArgs*, const MarathonSample*) { return 1; }
)");
    // It answers `verdict` (a file) when it is asked for one. A tool that takes longer than two
    // seconds has hung, and what it leaves in `failure` the replay says.
    put_program(programs_.path() / "marathon-judge", fmt::format(R"(
cp $2 {0}/asked
case $(cat $2) in
*'"mode":"device"'*) echo '{{"compute_capability": 90}}' >$4 ;;
*'"mode":"peaks"'*) echo '{{"gflops": 1000, "gbytes_s": 100}}' >$4 ;;
*'"mode":"evaluate"'*) cp {0}/verdict $4 ;;
*) exec python3 - $2 $4 <<'PY'
import json, os, subprocess, sys
request = json.load(open(sys.argv[1]))
answer = dict(exit_code=-1, timed_out=False, output="", inputs=dict(address=0x1000, bytes=0x1000))
if os.path.exists("{0}/failure"):
    answer["failure"] = open("{0}/failure").read()
try:
    done = subprocess.run(request["tool"] + ["replayer"], capture_output=True, text=True,
                          timeout=min(2, request["tool_limit_s"]))
    answer.update(exit_code=done.returncode, output=done.stdout + done.stderr)
except subprocess.TimeoutExpired:
    answer["timed_out"] = True
except OSError as error:
    sys.exit(sys.stderr.write("system: could not start the tool: %s\n" % error) and 3)
json.dump(answer, open(sys.argv[2], "w"))
PY
esac
)",
                                                                 root().string()));
    request_.task_folder = root() / "task";
    request_.candidate_folder = root() / "task/start";
    request_.cache_folder = shared_cache();
  }
  const fs::path& root() const { return folder_.path(); }

  TempFolder folder_ = temp_folder();
  ProgramFolder programs_;
  EvaluationRequest request_;
};

}  // namespace marathon
