// run, resume, attempt: the commands that write a run.
#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "app/app.h"
#include "app/live.h"
#include "base/clock.h"

namespace marathon {

namespace {

Budget budget_of(const CommandLine& line) {
  return Budget{line.evaluations, line.tool_calls, line.hours};
}

void print_outcome(const RunOutcome& outcome) {
  const State& state = outcome.state;
  fmt::print("\n");
  if (state.ending) {
    fmt::print("{}: {}\n", to_string(state.ending->ending), state.ending->evidence);
  } else {
    fmt::print("paused; nothing is lost. Go on with: marathon resume {}\n", outcome.run);
  }
  if (state.incumbent) {
    fmt::print("best speed-up {} over the baseline, attempt #{}; {}\n",
               speedup_text(state.incumbent->speedup), state.incumbent->attempt,
               budget_text(state));
  } else {
    fmt::print("no candidate passed yet; {}\n", budget_text(state));
  }
}

// The run's end for a person or a program; 130 when it was interrupted.
Result<int> finish(const CommandLine& line, const RunOutcome& outcome) {
  const std::filesystem::path folder = run_folder(TRY(marathon_home()), outcome.run);
  if (line.json) {
    fmt::print("{}\n", dump_json(status_json(outcome.state)));
  } else {
    print_outcome(outcome);
  }
  if (!line.no_report) {
    const Result<ReportFiles> report = write_report(folder);
    if (!report) return tl::unexpected(report.error());
    if (!line.json) fmt::print("report: {}\n", report->html.string());
  }
  return outcome.state.ending ? exit_ok : exit_interrupted;
}

RunOptions options_of(const CommandLine& line, Live& live) {
  RunOptions options;
  options.task_folder = line.task;
  options.name = line.name;
  options.seed = line.seed;
  options.budget = budget_of(line);
  options.agent = line.agent;
  options.unsafe_no_sandbox = line.unsafe_no_sandbox;
  options.on_event = [&live](const State& state, const Event& event, const Payload& payload) {
    live.on_event(state, event, payload);
  };
  return options;
}

}  // namespace

Result<int> command_run(const CommandLine& line, std::stop_token stop) {
  Live live(line.json ? stderr : stdout);
  RunOptions options = options_of(line, live);
  options.home = TRY(marathon_home());
  const Result<RunOutcome> outcome = start_run(options, stop);
  live.clear();
  if (!outcome) return tl::unexpected(outcome.error());
  return finish(line, *outcome);
}

Result<int> command_resume(const CommandLine& line, std::stop_token stop) {
  Live live(line.json ? stderr : stdout);
  RunOptions options = options_of(line, live);
  options.home = TRY(marathon_home());
  const std::string run = TRY(find_run(options.home, line.run));
  const Result<RunOutcome> outcome = resume_run(options, run, stop);
  live.clear();
  if (!outcome) return tl::unexpected(outcome.error());
  return finish(line, *outcome);
}

Result<int> command_attempt(const CommandLine& line, std::stop_token stop) {
  Live live(line.json ? stderr : stdout);
  AttemptOptions options;
  options.home = TRY(marathon_home());
  options.run = TRY(find_run(options.home, line.run));
  options.from = line.from;
  options.from_result = line.from_result;
  options.note = line.note;
  options.category = line.category;
  options.unsafe_no_sandbox = line.unsafe_no_sandbox;
  options.on_event = [&live](const State& state, const Event& event, const Payload& payload) {
    live.on_event(state, event, payload);
  };
  options.on_trouble = [&live](const std::string& text) {
    live.clear();
    fmt::print(stderr, "{}\n", text);
  };
  const Result<RunOutcome> outcome =
      line.from_result.empty() ? attempt(options, stop) : attempt_from_result(options, stop);
  live.clear();
  if (!outcome) return tl::unexpected(outcome.error());
  if (line.json) {
    fmt::print("{}\n", dump_json(status_json(outcome->state)));
  } else if (outcome->state.incumbent) {
    fmt::print("best of the run: {}\n", speedup_text(outcome->state.incumbent->speedup));
  }
  return exit_ok;
}

}  // namespace marathon
