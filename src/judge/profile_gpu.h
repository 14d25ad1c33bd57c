// What ncu prints, as figures; and figures as the sentences of a specialist. Pure.
// Inside of judge/ only.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "judge/profile.h"

namespace marathon {

// One launch. Values by the metric's name; times in ns, sizes in bytes, shares in %.
struct NcuKernel {
  std::string name, grid, block;
  std::map<std::string, double> values;
  double at(const std::string& metric) const;  // 0 when ncu could not tell
  bool has(const std::string& metric) const { return values.contains(metric); }
};

// Words for ncu: what is counted.
std::vector<std::string> ncu_metrics();
// `ncu --csv --page raw`: launches in their order. Lines around the table are passed over.
std::vector<NcuKernel> read_ncu(std::string_view text);
// Why there is no table in it: one sentence with advice.
std::string why_no_table(std::string_view text);

struct GpuProfileFacts {
  ProfileFacts known;  // the task's part: shape, times, bytes, flops
  std::vector<NcuKernel> kernels;
};
std::map<std::string, double> figures_of(const GpuProfileFacts& facts);
std::vector<std::string> sentences_of(const GpuProfileFacts& facts);

}  // namespace marathon
