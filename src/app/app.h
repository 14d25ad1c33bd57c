// The command line. The one door of app/: main() calls it, the report is made here.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/result.h"
#include "run/run.h"

namespace marathon {

// Exit codes. DO NOT CHANGE: scripts rely on them.
inline constexpr int exit_ok = 0;
inline constexpr int exit_usage = 2;        // the caller must change the command
inline constexpr int exit_environment = 3;  // something outside must change; the text says what
inline constexpr int exit_bug = 70;
inline constexpr int exit_interrupted = 130;

int exit_code_of(Fault fault);

// Parses argv and runs one command. Never throws.
int marathon_main(int argc, char** argv);

// Everything that the command line can say, filled by parse_command_line (cli.cc).
struct CommandLine {
  std::string command;  // "run", "task check", …
  std::filesystem::path task, from, from_result, out, request, result, candidate, pack, incumbent;
  std::vector<std::filesystem::path> candidates;  // of --pack
  std::vector<std::string> notes, categories;     // of --pack: one for all, or one each
  std::string run, agent = "search", name, note, category = "person";
  int64_t evaluations = 0, tool_calls = 0;
  double hours = 0;
  uint64_t seed = 1, input_seed = 0;  // of the search; of the judge's inputs, 0: secret
  bool json = false, follow = false, last = false, redacted = false, dry_run = false;
  bool unsafe_no_sandbox = false, quick = false, markdown = false, no_report = false;
  std::optional<int> exit;  // set when there is nothing to run (help, usage error)
};
CommandLine parse_command_line(int argc, char** argv);

// One function a command; each returns the exit code or the error to print.
Result<int> command_run(const CommandLine& line, std::stop_token stop);
Result<int> command_resume(const CommandLine& line, std::stop_token stop);
Result<int> command_attempt(const CommandLine& line, std::stop_token stop);
Result<int> command_judge(const CommandLine& line, std::stop_token stop);
// Its two halves for another machine (commands_elsewhere.cc): --pack, and --request of a folder.
Result<int> command_pack(const CommandLine& line);
Result<int> command_judge_packed(const CommandLine& line, std::stop_token stop);
// A stage of the judge, to standard error.
Status print_stage(const std::string& stage, const std::string& text, double seconds);
Result<int> command_task_check(const CommandLine& line, std::stop_token stop);
Result<int> command_doctor(const CommandLine& line);
Result<int> command_runs(const CommandLine& line);
Result<int> command_status(const CommandLine& line);
Result<int> command_log(const CommandLine& line, std::stop_token stop);
Result<int> command_best(const CommandLine& line);
Result<int> command_report(const CommandLine& line);
Result<int> command_export(const CommandLine& line);
Result<int> command_verify(const CommandLine& line);
Result<int> command_prune(const CommandLine& line);

// The report, from the log alone (report.cc). Markdown when the file ends in .md.
struct ReportFiles {
  std::filesystem::path html, markdown;
};
Result<ReportFiles> write_report(const std::filesystem::path& run_folder,
                                 const std::filesystem::path& out = {});

}  // namespace marathon
