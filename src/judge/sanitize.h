// compute-sanitizer around a replay of a GPU candidate's plan: what a task may demand of a new best
// ([judge] sanitize). Inside of judge/ only.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "judge/bench_call.h"

namespace marathon {

// ---- what it prints (sanitize_report.cc). Pure.

struct SanitizerFinding {
  std::string kind, kernel;  // kernel: empty when it names none
  int64_t count = 0;
};
struct SanitizerReport {
  std::vector<SanitizerFinding> findings;  // one a kind and kernel, in the order of their first
  int64_t errors = 0;       // in all, also those that it counts without printing them
  int64_t not_printed = 0;  // of them
  int64_t passed_over = 0;  // not among them: reads of what the judge wrote
  bool is_whole = false;    // its summary is there
  std::string fault;        // what it says of itself: it could not work
};
// The judge writes the inputs in another process, which initcheck cannot see.
struct AddressSpan {
  uint64_t begin = 0;
  int64_t bytes = 0;
};
SanitizerReport read_sanitizer(std::string_view log, const AddressSpan& inputs);
// "Invalid __global__ read of size 4 bytes (3 times, in scale), …", the most frequent first.
std::string findings_in_words(const SanitizerReport& report);

// ---- the step (sanitize.cc)

struct SanitizeOutcome {
  std::optional<VerdictKind> refused;  // rule_broken: a finding; ambiguous: it could not be told
  std::string sentence;
};
// Runs the tools that the task demands until one refuses. `raw_file` (optional) gets their logs. An
// Error only when it was stopped or the disk is full.
Result<SanitizeOutcome> sanitize_gpu_kernel(const LoadedTask& task,
                                            const EvaluationRequest& request,
                                            const Libraries& libraries,
                                            const std::filesystem::path& raw_file,
                                            std::stop_token stop);

std::optional<std::filesystem::path> find_compute_sanitizer();
inline constexpr const char* how_to_get_compute_sanitizer =
    "it is part of the CUDA toolkit (NVIDIA's package cuda-sanitizer of the toolkit's version); "
    "install it, or set COMPUTE_SANITIZER to where it is";

}  // namespace marathon
