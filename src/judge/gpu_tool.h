// A candidate's plan replayed once with one of NVIDIA's tools around the replayer. Inside of judge/
// only.
#pragma once

#include <optional>

#include "judge/bench_call.h"

namespace marathon {

struct ToolCall {
  std::string shape;               // a listed one
  std::vector<std::string> words;  // the tool with its options
  double limit_s = 120;
};
struct ToolRun {
  int exit_code = 0;
  bool timed_out = false;
  std::string output;   // bounded, both streams
  std::string failure;  // of the replay itself; empty: it went well
  uint64_t inputs = 0;  // where the judge's inputs lie
  int64_t input_bytes = 0;
};
// An Error when the tool could not be started or the judge could not work.
Result<ToolRun> run_under_tool(const LoadedTask& task, const EvaluationRequest& request,
                               const Libraries& libraries, const ToolCall& call,
                               std::stop_token stop);

// By the environment's variable, in PATH, or beside nvcc.
std::optional<std::filesystem::path> find_gpu_tool(const char* variable, const std::string& name);

}  // namespace marathon
