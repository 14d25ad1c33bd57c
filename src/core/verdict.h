// Verdict: what the judge found out about one candidate. A failed candidate is a verdict.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace marathon {

// DO NOT CHANGE the names: they are in logs. The set is closed (docs/glossary.md).
enum class VerdictKind {
  build_failed,  // the compiler refused it
  rule_broken,   // source or binary holds what the task forbids
  crashed,       // a signal, a non-zero return, a library that does not load
  timed_out,
  wrong,       // an output outside its bound, a canary touched, not every element written
  slower,      // upper bound of the ratio to the incumbent below 1 - noise
  same,        // neither
  faster,      // lower bound of the ratio to the incumbent above 1 + noise, measured again fresh
  ambiguous,   // could not be measured: foreign load, throttling
  suspicious,  // below the floor, or two clocks disagree, or an input was touched: held for review
};

std::string_view to_string(VerdictKind kind);
std::optional<VerdictKind> verdict_kind_from(std::string_view name);
bool is_measured(VerdictKind kind);  // slower, same, faster: a speed-up figure exists

struct Interval {
  double value = 0, low = 0,
         high = 0;  // 95 % by bootstrap over restarts unless a field says otherwise
};

// Samples of one implementation at one shape, in ns a call, in the order taken. Kept for the
// report.
struct Samples {
  std::vector<double> candidate_ns, incumbent_ns, baseline_ns;
};

struct OutputError {
  std::string output;
  double relative_rms = 0;  // the worst block's
  double bound = 0;
  double emulation = 0;      // what the honest emulation errs on the same inputs
  double worst_element = 0;  // worst |error| over its block's RMS
  std::string where;         // the worst block in words: "b 0 h 3 rows 64–127"
};

struct ShapeResult {
  std::string name, set;  // set: listed, hidden, stress. The agent sees "hidden" without dims
  VerdictKind verdict = VerdictKind::same;
  std::string reason;                                     // empty when right
  double time_us = 0, incumbent_us = 0, baseline_us = 0;  // medians, the deciding cache state
  double cold_us = 0, warm_us = 0;
  Interval speedup;                      // baseline / candidate
  double error = 0, baseline_error = 0;  // worst relative RMS over the outputs
  double floor_us = 0;
  std::string bound_by;  // "memory" or "arithmetic"
  std::vector<OutputError> outputs;
  Samples samples;
};

struct ProfileSummary {
  std::string source;  // "perf", "callgrind", "ncu", "compiler", "none"
  std::map<std::string, double>
      figures;                         // instructions_per_call, ipc, l1_miss_rate, vector_loops …
  std::vector<std::string> sentences;  // what a specialist would say, most important first
};

// What NVML said of the GPU while it was measured: at its start, and after each shape. What could
// not be read is 0 or empty.
struct GpuEvidence {
  std::string name, uuid, driver;
  int64_t readings = 0;
  double sm_clock_min_mhz = 0, sm_clock_mhz = 0, sm_clock_max_mhz = 0;  // the middle: the median
  double memory_clock_mhz = 0, power_w = 0, power_max_w = 0, temperature_max_c = 0;
  std::string throttled;        // "power cap in 3 of 40 readings"
  int64_t ecc_errors = 0;       // uncorrected, that came while it was measured
  int64_t other_processes = 0;  // at most seen at once
  std::string missing;          // why something could not be read
};

// Evidence about how it was measured; never mixed with merit.
struct Provenance {
  std::string host, cpu, kernel, compiler, flags;
  std::string sandbox;  // level reached
  std::string effort;   // "quick", "full"
  // Hash of the request folder that it was judged from, when that was not the run itself.
  std::string elsewhere;
  std::string judge_version;
  std::string task_hash, candidate_hash, incumbent_hash, baseline_hash, binary_hash;
  uint64_t seed = 0;  // of the inputs; told only after the run
  int64_t core = -1;  // core measured on
  int64_t restarts = 0, windows = 0, windows_discarded = 0;
  double clock_disagreement = 0;  // relative, median over windows
  double noise = 0;               // half width of the A/A interval used
  double peak_gflops = 0, peak_gbytes_s = 0;
  double load_average = 0;
  int64_t started_at_us = 0;
  double seconds = 0, build_s = 0, check_s = 0, measure_s = 0, sanitize_s = 0, profile_s = 0;
  std::optional<GpuEvidence> gpu;
};

struct Verdict {
  VerdictKind kind = VerdictKind::ambiguous;
  Interval speedup;                  // over the baseline, geometric mean over listed shapes
  Interval gain;                     // over the incumbent; 1 when there is none
  std::vector<std::string> reasons;  // full sentences, the deciding one first
  std::vector<ShapeResult> shapes;
  std::string build_output;  // bounded; the whole is an artifact
  std::string build_output_artifact;
  std::optional<ProfileSummary> profile;
  std::string profile_artifact;
  std::string sanitize_artifact;  // what compute-sanitizer's tools reported
  std::string whole_artifact;  // the untrimmed verdict, when it was too long for an event
  double metric = 0, baseline_metric = 0;  // kind "command": the raw figure
  std::string metric_unit;
  bool decided_early = false;  // racing: enough was known before the plan's end
  bool confirmed = false;      // measured again, fresh
  Provenance provenance;
};

// Would it make its candidate the best? `faster` counts after the judge confirmed it by a fresh
// measurement. The first candidate that passes is the incumbent whatever its speed: there must be
// something to beat.
bool promotes(const Verdict& verdict, bool has_incumbent);

// Visits the hash of every artifact that a verdict names, also empty ones.
template <class AnyVerdict, class Visit>
void visit_artifacts(AnyVerdict& verdict, const Visit& visit) {
  visit(verdict.build_output_artifact);
  visit(verdict.profile_artifact);
  visit(verdict.sanitize_artifact);
  visit(verdict.whole_artifact);
}

// The JSON of `marathon judge --json` and of the log. Unknown fields are ignored when read.
Json to_json(const Verdict& verdict);
Result<Verdict> verdict_from_json(const Json& json);
// What an agent or a candidate's author may see: hidden shapes without their dims and errors.
Json to_public_json(const Verdict& verdict);
Json to_json(const ProfileSummary& profile);

}  // namespace marathon
