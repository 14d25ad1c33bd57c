// What the report tells, read from the log alone. HTML and Markdown only format it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/state.h"

namespace marathon {

struct ReportModel {
  std::string run;
  State state;
  std::optional<Verdict> start, best;  // whole verdicts: profile before and after, provenance
  std::string diff;                    // the best candidate against the start, unified
  double floor_speedup = 0;            // of the best verdict
  int64_t confirmed = 0, duplicates = 0;
};

// The speed-up at which every listed shape would run at its floor: the geometric mean of baseline
// time over floor. 0: unknown.
double floor_speedup_of(const Verdict& verdict);

Result<ReportModel> read_report_model(const std::filesystem::path& run_folder);

// The curve: incumbent as a step line, every attempt as a point, goal and floor as lines. Own SVG.
enum class CurveAxis { evaluations, time };
std::string speedup_curve_svg(const ReportModel& model, CurveAxis axis);

std::string report_html(const ReportModel& model);
std::string report_markdown(const ReportModel& model);

// "baseline", "machine", "protocol" … as pairs of a label and a sentence, for both formats.
std::vector<std::pair<std::string, std::string>> how_it_was_measured(const ReportModel& model);

std::string escape_html(const std::string& text);

}  // namespace marathon
