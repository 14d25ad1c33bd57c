// Calls marathon-judge with a request and reads its answer. Inside of judge/ only.
#pragma once

#include "base/json.h"
#include "judge/build.h"
#include "judge/judge.h"

namespace marathon {

// The libraries of one evaluation.
struct Libraries {
  BuildOutcome candidate, incumbent, baseline, oracle, emulation;
  BuildOutcome cpu_oracle;  // of a task for a GPU, when its checker is tested
};

// An Error when marathon-judge could not work; its verdicts about a candidate are in the JSON.
// Stages are passed on as they come, from this thread.
Result<Json> call_bench(const std::string& mode, const LoadedTask& task,
                        const EvaluationRequest& request, const Libraries& libraries,
                        const Json& peaks, const StageSink& stage, std::stop_token stop);

// One call of the candidate without a clock; `what` is added to the request: shape, tool.
Result<Json> call_bench_once(const LoadedTask& task, const EvaluationRequest& request,
                             const Libraries& libraries, const Json& what, double limit_s,
                             std::stop_token stop);

// Peaks of the measured core, or of the GPU whose cubin is given, cached for 12 hours a boot.
Result<Json> measured_peaks(const EvaluationRequest& request, const std::filesystem::path& cubin,
                            std::stop_token stop);
// One request to marathon-judge in a scratch folder of its own, and its answer.
Result<Json> ask_bench(const Json& request, double limit_s, std::stop_token stop);

// The longest that an honest evaluation can take.
double bench_limit_s(const Task& task);

// ---- GPUs (gpu_call.cc)

// "90a": of the GPU here; where there is none that of Hopper, so that builds can be checked.
Result<std::string> gpu_architecture(const EvaluationRequest& request);
// Error with advice where there is none.
Status require_gpu(std::stop_token stop);
// The judge's own kernels, compiled by nvcc for the GPU here.
Result<std::filesystem::path> judge_cubin(const EvaluationRequest& request, std::stop_token stop);

// ---- jobs for build() (jobs.cc)

// What an implementation's folder holds that is of use, and what is odd about it.
struct Implementation {
  BuildJob job;
  std::vector<SourceFile> editable;  // with params.toml; empty for a baseline's
  std::vector<std::string> notes;    // "not editable, so not used: notes.md"
};
enum class Origin { candidate, baseline };

// Editable files of a candidate's folder, and notes on what lies there in vain. Error invalid when
// one of them is a link or another special file.
struct CandidateFiles {
  std::vector<SourceFile> editable;
  std::vector<std::string> notes;
};
Result<CandidateFiles> read_candidate(const LoadedTask& task, const std::filesystem::path& folder);

// Error invalid: the sentence says which rule the folder breaks.
Result<Implementation> read_implementation(const LoadedTask& task,
                                           const std::filesystem::path& folder, Origin origin,
                                           const EvaluationRequest& request);
Result<BuildJob> oracle_job(const LoadedTask& task, const std::string& real,
                            const EvaluationRequest& request);

// The oracle in C++ of a task for a GPU.
Result<BuildJob> cpu_oracle_job(const LoadedTask& task, const EvaluationRequest& request);

// Builds baseline, oracle and emulation. Error invalid when one of them does not build: the task is
// wrong.
Status build_trusted(const LoadedTask& task, const EvaluationRequest& request, Libraries& libraries,
                     std::stop_token stop);

}  // namespace marathon
