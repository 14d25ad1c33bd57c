// Writes the report's files, and the report as Markdown (for a pull request).
#include <fmt/format.h>

#include "app/app.h"
#include "app/live.h"
#include "app/report_model.h"
#include "base/clock.h"
#include "base/file.h"

namespace marathon {

namespace fs = std::filesystem;

namespace {

// Inside a table cell: no line break, no bar, no HTML.
std::string cell(const std::string& text) {
  std::string clean;
  for (const char c : printable(text, 400)) {
    if (c == '|' || c == '\\' || c == '`' || c == '*' || c == '_' || c == '[')
      clean.push_back('\\');
    if (c == '<') {
      clean += "&lt;";
    } else {
      clean.push_back(c);
    }
  }
  return clean;
}

std::string shapes_markdown(const Verdict& verdict) {
  std::string text =
      "| shape | µs | baseline µs | speed-up | of the floor | error |\n| --- | --- | --- | --- | "
      "--- | --- |\n";
  for (const ShapeResult& shape : verdict.shapes) {
    if (shape.time_us <= 0) continue;
    text += fmt::format("| {} | {:.1f} | {:.1f} | {} | {:.0f} % | {:.1e} |\n", cell(shape.name),
                        shape.time_us, shape.baseline_us, speedup_text(shape.speedup),
                        shape.time_us > 0 ? 100 * shape.floor_us / shape.time_us : 0, shape.error);
  }
  return text;
}

std::string turning_points_markdown(const State& state) {
  std::string text = "| attempt | speed-up | category | hypothesis |\n| --- | --- | --- | --- |\n";
  for (const Attempt& attempt : state.attempts) {
    if (!attempt.became_incumbent) continue;
    text += fmt::format("| #{} | {} | {} | {} |\n", attempt.number, speedup_text(attempt.speedup),
                        cell(attempt.category), cell(attempt.hypothesis));
  }
  return text;
}

// A fence longer than any run of backticks inside.
std::string fenced(const std::string& text, const std::string& language) {
  size_t longest = 0, run = 0;
  for (const char c : text) {
    run = c == '`' ? run + 1 : 0;
    longest = std::max(longest, run);
  }
  const std::string fence(std::max<size_t>(3, longest + 1), '`');
  return fence + language + "\n" + text + "\n" + fence + "\n";
}

}  // namespace

std::string report_markdown(const ReportModel& model) {
  const State& state = model.state;
  std::string text = fmt::format("# {}\n\n{}\n\n", cell(model.run), cell(state.target.text));
  text += fmt::format("**{}**", state.ending ? to_string(state.ending->ending) : "open");
  if (state.incumbent)
    text += fmt::format(": {} over the baseline", speedup_text(state.incumbent->speedup));
  text += fmt::format(" · {} evaluations in {}\n\n", state.spent.evaluations,
                      format_duration(state.spent.active_s));
  if (state.ending) text += cell(state.ending->evidence) + "\n\n";
  text += "## Turning points\n\n" + turning_points_markdown(state) + "\n";
  if (model.best) text += "## By shape\n\n" + shapes_markdown(*model.best) + "\n";
  if (model.best && model.best->profile) {
    text += "## Profile of the best\n\n";
    for (const std::string& sentence : model.best->profile->sentences)
      text += "- " + cell(sentence) + "\n";
    text += "\n";
  }
  if (!model.diff.empty())
    text += "## Diff against the start\n\n" + fenced(printable_lines(model.diff, 20'000), "diff") +
            "\n";
  text += "## How it was measured\n\n";
  for (const auto& [label, value] : how_it_was_measured(model))
    text += fmt::format("- {}: {}\n", label, cell(value));
  return text;
}

Result<ReportFiles> write_report(const fs::path& run_folder, const fs::path& out) {
  const ReportModel model = TRY(read_report_model(run_folder));
  ReportFiles files;
  if (out.empty()) {
    files = {run_folder / "report.html", run_folder / "report.md"};
  } else if (out.extension() == ".md") {
    files.markdown = out;
  } else if (out.extension() == ".html") {
    files.html = out;
  } else {
    return fail(Fault::invalid, "--out must end in .html or .md, not '" + out.string() + "'");
  }
  if (!files.html.empty()) TRY(write_file_durable(files.html, report_html(model)));
  if (!files.markdown.empty()) TRY(write_file_durable(files.markdown, report_markdown(model)));
  return files;
}

}  // namespace marathon
