// What bounds a GPU candidate's kernels, by ncu around a replay of its plan: none of the
// candidate's host code runs there, and the counters are those of what was timed.
#include "judge/profile_gpu.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "judge/gpu_tool.h"
#include "judge/pipeline.h"
#include "judge/profile_task.h"

namespace marathon {

namespace fs = std::filesystem;

namespace {

constexpr double profile_limit_s = 120;
constexpr int64_t max_raw_bytes = 16 << 20;

// Clocks stay as they are; each kernel of the graph is counted by itself, its caches as the task
// wants them.
std::vector<std::string> ncu_words(const fs::path& program, const fs::path& report, bool is_cold) {
  std::vector<std::string> words = {program.string(),
                                    "--csv",
                                    "--page",
                                    "raw",
                                    "--print-units",
                                    "base",
                                    "--log-file",
                                    report.string(),
                                    "--target-processes",
                                    "application-only",
                                    "--profile-from-start",
                                    "off",
                                    "--graph-profiling",
                                    "node",
                                    "--clock-control",
                                    "none",
                                    "--cache-control",
                                    is_cold ? "all" : "none"};
  const std::vector<std::string> metrics = ncu_metrics();
  words.insert(words.end(), metrics.begin(), metrics.end());
  return words;
}

ProfileSummary none(const std::string& why) { return {"none", {}, {"No profile: " + why + "."}}; }

}  // namespace

Result<ProfileSummary> profile_gpu_kernel(const LoadedTask& task, const EvaluationRequest& request,
                                          const Libraries& libraries, const Verdict& verdict,
                                          const fs::path& raw_file, std::stop_token stop) {
  const Shape* shape = shape_to_profile(task.task);
  if (!shape) return fail(Fault::invalid, "the task has no listed shape");
  const std::optional<fs::path> ncu = find_gpu_tool("NCU", "ncu");
  if (!ncu)
    return none(
        "ncu is not installed (it is part of the CUDA toolkit: nsight-compute); install it, "
        "or set NCU to where it is");
  const TempFolder scratch = TRY(TempFolder::make("marathon-ncu"));
  const fs::path report = scratch.path() / "ncu.csv";
  const ToolRun run = TRY(run_under_tool(
      task, request, libraries,
      {shape->name, ncu_words(*ncu, report, task.task.measure.cache == CacheState::cold),
       profile_limit_s},
      stop));
  const std::string raw = read_file(report, max_raw_bytes).value_or(std::string());
  if (!raw_file.empty()) TRY(write_file(raw_file, raw + run.output));
  if (run.timed_out) return none(fmt::format("ncu takes longer than {:g} s", profile_limit_s));
  GpuProfileFacts facts{known_facts(task.task, *shape, verdict), read_ncu(raw)};
  if (facts.kernels.empty()) return none(why_no_table(raw + "\n" + run.output));
  return ProfileSummary{"ncu", figures_of(facts), sentences_of(facts)};
}

}  // namespace marathon
