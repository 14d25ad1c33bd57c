// The step between a new best's confirmation and its promotion: none of the candidate's host code
// runs in it, as in a profile.
#include "judge/sanitize.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/file.h"
#include "judge/gpu_tool.h"
#include "judge/profile_task.h"

namespace marathon {

namespace fs = std::filesystem;

namespace {

constexpr double sanitizer_limit_s = 120;
constexpr int found_errors = 86;                  // its exit code then
constexpr const char* most_printed = "10000";     // errors: what initcheck says may have no end
constexpr int64_t max_report_bytes = 64LL << 20;  // that is read
constexpr size_t max_kept_bytes = 8 << 20, max_said_bytes = 300;  // of each tool

std::vector<std::string> words_for(const fs::path& program, Sanitizer tool,
                                   const fs::path& report) {
  std::vector<std::string> words = {program.string(), "--tool", std::string(to_string(tool)),
                                    // A kernel may print: what it prints is not in there.
                                    "--log-file", report.string(), "--error-exitcode",
                                    std::to_string(found_errors), "--print-limit", most_printed,
                                    "--target-processes", "application-only", "--show-backtrace",
                                    "device", "--demangle", "simple"};
  switch (tool) {
    case Sanitizer::memcheck:  // calls of the driver are the replayer's own
      words.insert(words.end(), {"--report-api-errors", "no"});
      break;
    case Sanitizer::racecheck:
      words.insert(words.end(), {"--racecheck-detect-level", "error"});
      break;
    case Sanitizer::synccheck:
    case Sanitizer::initcheck:
      break;
  }
  return words;
}

std::string cut_in_the_middle(std::string text) {
  if (text.size() <= max_kept_bytes) return text;
  const size_t half = max_kept_bytes / 2, left_out = text.size() - 2 * half;
  return text.substr(0, half) + fmt::format("\n… {} bytes left out …\n", left_out) +
         text.substr(text.size() - half);
}

// The last line that is not empty.
std::string last_words(std::string text) {
  text.erase(text.find_last_not_of(" \r\n") + 1);
  text.erase(0, text.rfind('\n') + 1);
  if (text.size() > max_said_bytes) text.resize(max_said_bytes);
  return text.empty() ? "nothing" : text;
}

class Step {
 public:
  Step(const LoadedTask& task, const EvaluationRequest& request, const Libraries& libraries,
       std::stop_token stop)
      : task_(task), request_(request), libraries_(libraries), stop_(std::move(stop)) {}

  Result<SanitizeOutcome> run(const fs::path& raw_file) {
    // Those that are listed may be named in a reason; the least data, since it takes some fifty
    // times as long.
    shape_ = smallest_shape(task_.task);
    if (!shape_) return fail(Fault::invalid, "the task has no listed shape");
    const std::optional<fs::path> program = find_compute_sanitizer();
    if (!program) {
      return SanitizeOutcome{
          VerdictKind::ambiguous,
          fmt::format("the task demands {} of a new best, but compute-sanitizer is not installed: "
                      "{}, then judge it again",
                      tools(), how_to_get_compute_sanitizer)};
    }
    std::optional<SanitizeOutcome> objection;
    for (const Sanitizer tool : task_.task.judge.sanitize) {
      objection = TRY(run_tool(*program, tool));
      if (objection) break;
    }
    if (!raw_file.empty()) TRY(write_file(raw_file, raw_));
    if (objection) return *objection;
    return SanitizeOutcome{
        {}, fmt::format("compute-sanitizer finds nothing at {} ({})", shape_->name, tools())};
  }

 private:
  // Nothing: the tool has no objection.
  Result<std::optional<SanitizeOutcome>> run_tool(const fs::path& program, Sanitizer tool) {
    const TempFolder scratch = TRY(TempFolder::make("marathon-sanitize"));
    const fs::path log = scratch.path() / "report.txt";
    const Result<ToolRun> run =
        run_under_tool(task_, request_, libraries_,
                       {shape_->name, words_for(program, tool, log), sanitizer_limit_s}, stop_);
    if (!run) {
      const Fault fault = run.error().fault;
      if (fault == Fault::cancelled || fault == Fault::no_space) return tl::unexpected(run.error());
      return undecided(tool, fmt::format("could not be run: {}; try `{} --version` here",
                                         run.error().what, program.string()));
    }
    const Result<std::string> text = read_file(log, max_report_bytes);
    const std::string log_text = text.value_or(std::string());
    raw_ += fmt::format("-- {} at {}\n{}\n-- what it and the replay printed\n{}\n", to_string(tool),
                        shape_->name, cut_in_the_middle(log_text), run->output);
    const SanitizerReport report = read_sanitizer(log_text, {run->inputs, run->input_bytes});
    if (report.errors > 0 || run->timed_out || report.is_whole) return opinion(tool, *run, report);
    const bool unreadable = !text && text.error().fault != Fault::not_found;
    const std::string said = unreadable ? text.error().what : report.fault;
    return undecided(
        tool, fmt::format("ended with exit code {} and left no whole report; it said: {}; see "
                          "sanitize.txt, and try `{} --version` here",
                          run->exit_code, said.empty() ? last_words(run->output) : said,
                          program.string()));
  }

  std::optional<SanitizeOutcome> opinion(Sanitizer tool, const ToolRun& run,
                                         const SanitizerReport& report) const {
    const bool hides_others =
        report.passed_over > 0 && report.findings.empty() && report.not_printed > 0;
    if (hides_others) {
      return undecided(tool,
                       fmt::format("reports {} reads and prints {}, all of them of inputs, which "
                                   "the judge wrote where it cannot see; add a smaller listed "
                                   "shape, or take it out of [judge] sanitize",
                                   report.errors + report.passed_over, report.passed_over));
    }
    if (report.errors > 0) return finding(tool, report);
    if (run.timed_out) {
      return undecided(tool, fmt::format("took longer than {:g} s; add a smaller listed shape, or "
                                         "take it out of [judge] sanitize",
                                         sanitizer_limit_s));
    }
    const bool ends_well =
        run.exit_code == 0 || (run.exit_code == found_errors && report.passed_over > 0);
    if (run.failure.empty() && ends_well) return std::nullopt;
    return undecided(
        tool, fmt::format(
                  "found nothing, but the replay failed under it: {}; see sanitize.txt",
                  run.failure.empty() ? fmt::format("exit code {}", run.exit_code) : run.failure));
  }

  SanitizeOutcome finding(Sanitizer tool, const SanitizerReport& report) const {
    return {VerdictKind::rule_broken,
            fmt::format("compute-sanitizer's {} finds {} at {}: {}; the task lets nothing become "
                        "the best that is not clean. Threads and addresses are in sanitize.txt "
                        "(the verdict's sanitize_artifact), lines too if [build] flags hold "
                        "-lineinfo",
                        to_string(tool),
                        report.errors == 1 ? "an error" : fmt::format("{} errors", report.errors),
                        shape_->name, findings_in_words(report))};
  }
  SanitizeOutcome undecided(Sanitizer tool, const std::string& what) const {
    return {VerdictKind::ambiguous,
            fmt::format("compute-sanitizer's {} at {} {}; then judge it again", to_string(tool),
                        shape_->name, what)};
  }
  std::string tools() const {
    std::vector<std::string_view> names;
    for (const Sanitizer tool : task_.task.judge.sanitize) names.push_back(to_string(tool));
    return fmt::format("{}", fmt::join(names, ", "));
  }

  const LoadedTask& task_;
  const EvaluationRequest& request_;
  const Libraries& libraries_;
  std::stop_token stop_;
  const Shape* shape_ = nullptr;
  std::string raw_;
};

}  // namespace

Result<SanitizeOutcome> sanitize_gpu_kernel(const LoadedTask& task,
                                            const EvaluationRequest& request,
                                            const Libraries& libraries, const fs::path& raw_file,
                                            std::stop_token stop) {
  return Step(task, request, libraries, std::move(stop)).run(raw_file);
}

std::optional<fs::path> find_compute_sanitizer() {
  return find_gpu_tool("COMPUTE_SANITIZER", "compute-sanitizer");
}

}  // namespace marathon
