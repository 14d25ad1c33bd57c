// Calls marathon-judge with a request and reads its answer. Inside of judge/ only.
#pragma once

#include "base/json.h"
#include "judge/build.h"
#include "judge/judge.h"

namespace marathon {

// The libraries of one evaluation.
struct Libraries {
  BuildOutcome candidate, incumbent, baseline, oracle, emulation;
};

// An Error when marathon-judge could not work; its verdicts about a candidate are in the JSON.
Result<Json> call_bench(const std::string& mode, const LoadedTask& task,
                        const EvaluationRequest& request, const Libraries& libraries,
                        const Json& peaks, const StageSink& stage, std::stop_token stop);

// Peaks of the measured core, cached for 12 hours a boot.
Result<Json> measured_peaks(const EvaluationRequest& request, std::stop_token stop);

// Jobs for build(): candidate, baseline or incumbent from a folder; the oracle with `real`.
Result<BuildJob> implementation_job(const LoadedTask& task, const std::filesystem::path& folder,
                                    const EvaluationRequest& request);
Result<BuildJob> oracle_job(const LoadedTask& task, const std::string& real,
                            const EvaluationRequest& request);

// Builds baseline, oracle and emulation. Error invalid when one of them does not build: the task is
// wrong.
Status build_trusted(const LoadedTask& task, const EvaluationRequest& request, Libraries& libraries,
                     std::stop_token stop);

}  // namespace marathon
