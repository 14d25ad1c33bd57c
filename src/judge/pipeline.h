// The two kinds of tasks behind one executor. Inside of judge/ only.
#pragma once

#include <stop_token>

#include "judge/bench_call.h"
#include "judge/judge.h"

namespace marathon {

Result<Verdict> judge_kernel(const LoadedTask& task, const EvaluationRequest& request,
                             const StageSink& stage, std::stop_token stop);
Result<Verdict> judge_command(const LoadedTask& task, const EvaluationRequest& request,
                              const StageSink& stage, std::stop_token stop);

// A verdict that stops the pipeline, with its one reason.
Verdict failed_verdict(VerdictKind kind, std::string reason);

// Profile of one implementation: counters or instruction counts, and the compiler's remarks.
// `verdict` has its times and the machine's peaks.
Result<ProfileSummary> profile_kernel(const LoadedTask& task, const EvaluationRequest& request,
                                      const Verdict& verdict, const std::filesystem::path& raw_file,
                                      std::stop_token stop);

// The same of an implementation for a GPU, by ncu.
Result<ProfileSummary> profile_gpu_kernel(const LoadedTask& task, const EvaluationRequest& request,
                                          const Libraries& libraries, const Verdict& verdict,
                                          const std::filesystem::path& raw_file,
                                          std::stop_token stop);

// Host, kernel, compiler, hashes: what is known before anything runs.
void fill_provenance(Provenance& provenance, const LoadedTask& task,
                     const EvaluationRequest& request);

// Error when candidates cannot be jailed here and the request does not allow that.
Status require_sandbox(const EvaluationRequest& request);

}  // namespace marathon
