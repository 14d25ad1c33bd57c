// What marathon-judge is asked: one JSON file, written by judge/.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/json.h"
#include "core/task.h"
#include "core/verdict.h"

namespace marathon {

enum class BenchMode { evaluate, noise, mutants, oracles, peaks, device, run_once, pairs };

// Measured peaks of one core: arithmetic, and reading at four sizes of the data.
struct Peaks {
  double gflops = 0;  // fp32 multiply-add
  double l1_gbytes_s = 0, l2_gbytes_s = 0, l3_gbytes_s = 0, memory_gbytes_s = 0;
};

struct BenchRequest {
  BenchMode mode = BenchMode::evaluate;
  std::filesystem::path task_folder, candidate, incumbent, baseline, oracle, emulation, worker,
      temp_folder;
  bool quick = false, race = false, unsafe_no_sandbox = false;
  double incumbent_speedup = 0, noise = 0;
  uint64_t seed = 0;
  int64_t core = -1;
  Peaks peaks;
  std::string shape;  // run-once: a listed shape; empty: the first
  int64_t calls = 1;  // run-once
  std::vector<std::string> tool;  // run-once on a GPU: the words before the replayer's own
  double tool_limit_s = 120;
  int64_t pairs = 1;  // pairs

  // On a GPU: the cubins of each implementation beside its library, and of the judge's own kernels.
  std::filesystem::path judge_cubin;  // empty: a task for the CPU
  std::filesystem::path cpu_oracle;  // oracles: the task's oracle in C++
  double oracle_flops = 5e9;         // oracles: of the largest shape that is looked at
  std::vector<std::filesystem::path> candidate_cubins, incumbent_cubins, baseline_cubins;
  int64_t gpu = 0;  // ordinal
  bool on_gpu() const { return !judge_cubin.empty(); }
};

Result<BenchRequest> bench_request_from(const Json& json);
Json to_json(const Peaks& peaks);
Peaks peaks_from(const Json& json);

// A line of JSON on standard output: {"stage", "text", "seconds"}.
void print_stage(const std::string& stage, const std::string& text, double seconds);

}  // namespace marathon
