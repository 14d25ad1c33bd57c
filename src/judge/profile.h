// What the profiling tools print, as figures; and figures as the sentences of a specialist. Pure.
// Inside of judge/ only.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/verdict.h"

namespace marathon {

// `perf stat -x,`: counts by event, without what could not be counted.
std::map<std::string, double> read_perf_stat(std::string_view text);

struct HotLine {
  std::string file;
  int64_t line = 0;
  double instructions = 0;
};
struct CallgrindFacts {
  double instructions = 0, reads = 0, writes = 0, read_misses = 0, write_misses = 0;  // L1 data
  std::vector<HotLine> lines;  // most instructions first
};
// A callgrind.out file with --cache-sim=yes; costs inclusive of callees are left out.
CallgrindFacts read_callgrind(std::string_view text);

struct VectorRemarks {
  int64_t vectorised = 0, missed = 0;         // missed: without loops around other loops
  std::map<int64_t, int64_t> loops_by_bytes;  // width in bytes → loops
  std::vector<std::pair<std::string, std::string>> missed_loops;  // "solution.cc:12", the reason
  std::vector<std::string> lines;  // as printed, of the candidate's own files
};
// -fopt-info-vec-optimized -fopt-info-vec-missed. Only files of the candidate (no absolute path).
VectorRemarks read_vector_remarks(std::string_view text);

// The largest stack frame in a .su file of -fstack-usage, with its function.
struct Frame {
  std::string function;
  int64_t bytes = 0;
};
Frame largest_frame(std::string_view stack_usage);

// Moves of vector registers to and from the stack in objdump's listing of one function, as a share
// of its instructions: registers that did not suffice.
struct Spills {
  int64_t instructions = 0, vector_moves = 0;
};
Spills count_spills(std::string_view listing);

// What is known when the sentences are written; 0 and empty stand for unknown.
struct ProfileFacts {
  std::string shape, bound_by;  // "memory" or "arithmetic"
  double time_us = 0, floor_us = 0, cold_us = 0;
  double flops = 0, bytes = 0;  // of one call, by the task's model
  double peak_gflops = 0, peak_gbytes_s = 0;
  double instructions = 0, cycles = 0, cache_misses = 0, branch_misses = 0;
  double l1_miss_rate = -1;  // below 0: unknown
  std::string counted_by;    // "perf" or "callgrind"
  VectorRemarks remarks;
  Frame frame;
  Spills spills;
  std::vector<std::string> hot_lines;  // "solution.cc:31 (62 %): acc += …"
};
std::map<std::string, double> figures_of(const ProfileFacts& facts);
// How far from its floor it is; nothing when that is not known.
std::optional<std::string> floor_sentence(const ProfileFacts& facts);
// Two to six sentences, most important first.
std::vector<std::string> sentences_of(const ProfileFacts& facts);

}  // namespace marathon
