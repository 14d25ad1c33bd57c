#include "judge/gpu_tool.h"

#include <cstdlib>
#include <nlohmann/json.hpp>

namespace marathon {

namespace fs = std::filesystem;

namespace {

constexpr double start_and_plan_s = 600;

}  // namespace

Result<ToolRun> run_under_tool(const LoadedTask& task, const EvaluationRequest& request,
                               const Libraries& libraries, const ToolCall& call,
                               std::stop_token stop) {
  const Json answer = TRY(
      call_bench_once(task, request, libraries,
                      {{"shape", call.shape}, {"tool", call.words}, {"tool_limit_s", call.limit_s}},
                      start_and_plan_s + 2 * call.limit_s, std::move(stop)));
  ToolRun run;
  run.exit_code = static_cast<int>(json_int(answer, "exit_code"));
  run.timed_out = json_bool(answer, "timed_out");
  run.output = json_string(answer, "output");
  run.failure = json_string(answer, "failure");
  if (answer.contains("inputs")) {
    run.inputs = static_cast<uint64_t>(json_int(answer.at("inputs"), "address"));
    run.input_bytes = json_int(answer.at("inputs"), "bytes");
  }
  return run;
}

std::optional<fs::path> find_gpu_tool(const char* variable, const std::string& name) {
  const char* own = std::getenv(variable);
  if (own && *own) return find_program(own);
  if (std::optional<fs::path> found = find_program(name)) return found;
  const Result<Compiler> nvcc = find_nvcc();
  if (!nvcc) return std::nullopt;
  std::error_code code;
  const fs::path beside = fs::canonical(nvcc->path, code).parent_path() / name;
  return !code && fs::exists(beside) ? std::optional(beside) : std::nullopt;
}

}  // namespace marathon
