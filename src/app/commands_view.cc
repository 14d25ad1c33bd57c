// runs, status, log, best, export, verify, prune, report: the commands that read a run.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <thread>

#include "app/app.h"
#include "app/live.h"
#include "base/clock.h"
#include "base/hash.h"

namespace marathon {

namespace fs = std::filesystem;

namespace {

struct OpenRun {
  std::string name;
  fs::path folder;
  Reader reader;
};

Result<OpenRun> open_run(const CommandLine& line) {
  const fs::path home = TRY(marathon_home());
  std::string name = TRY(find_run(home, line.run));
  fs::path folder = run_folder(home, name);
  Reader reader = TRY(Reader::open(folder));
  return OpenRun{std::move(name), std::move(folder), std::move(reader)};
}

std::string state_word(const State& state) {
  return state.ending ? std::string(to_string(state.ending->ending)) : "open";
}

std::string one_line(const std::string& run, const State& state) {
  const std::string best = state.incumbent ? speedup_text(state.incumbent->speedup) : "–";
  return fmt::format("{:<34} {:<17} {:>5} evaluations  best {:<20} {}", run, state_word(state),
                     state.spent.evaluations, best, format_utc(state.last_recorded_at_us));
}

void print_status(const OpenRun& run, const State& state) {
  fmt::print("run      {}\n", run.name);
  if (state.start) fmt::print("task     {} ({})\n", state.start->task_name, state.start->agent);
  fmt::print("state    {}\n", state_word(state));
  if (state.ending) fmt::print("         {}\n", state.ending->evidence);
  fmt::print("goal     {}\n", state.target.text.empty() ? "as fast as it goes" : state.target.text);
  if (state.incumbent) {
    fmt::print("best     {} attempt #{} {}\n", speedup_text(state.incumbent->speedup),
               state.incumbent->attempt, short_hash(state.incumbent->candidate));
  }
  fmt::print("spent    {}\n", budget_text(state));
  fmt::print("events   {}, last at {}\n", state.events, format_utc(state.last_recorded_at_us));
  if (!state.ending) fmt::print("next     marathon resume {}\n", run.name);
}

void print_event(const Event& event, bool json) {
  if (json) {
    fmt::print("{}\n", to_json_line(event));
    return;
  }
  fmt::print("{:>7}  {}  {:<22} {}\n", event.sequence, format_utc(event.recorded_at_us),
             event.payload_type, printable(event.payload, 160));
}

}  // namespace

Result<int> command_runs(const CommandLine& line) {
  const fs::path home = TRY(marathon_home());
  Json list = Json::array();
  std::vector<std::pair<int64_t, std::string>> rows;
  std::error_code none;
  for (const fs::directory_entry& entry : fs::directory_iterator(home / "runs", none)) {
    const std::string name = entry.path().filename().string();
    const Result<Reader> reader = Reader::open(entry.path());
    const Result<State> state =
        reader ? reader->fold() : Result<State>(tl::unexpected(reader.error()));
    if (!state) {
      rows.emplace_back(0, fmt::format("{:<34} unreadable: {}", name, state.error().what));
      list.push_back({{"run", name}, {"error", state.error().what}});
      continue;
    }
    rows.emplace_back(state->last_recorded_at_us, one_line(name, *state));
    list.push_back(status_json(*state));
  }
  if (line.json) {
    fmt::print("{}\n", dump_json(Json{{"runs", list}}));
    return exit_ok;
  }
  std::sort(rows.rbegin(), rows.rend());
  for (const auto& [at, text] : rows) fmt::print("{}\n", text);
  if (rows.empty()) fmt::print("no runs in {}; start one with: marathon run TASK\n", home.string());
  return exit_ok;
}

Result<int> command_status(const CommandLine& line) {
  const OpenRun run = TRY(open_run(line));
  const State state = TRY(run.reader.fold());
  if (line.json) {
    fmt::print("{}\n", dump_json(status_json(state)));
  } else {
    print_status(run, state);
  }
  return exit_ok;
}

Result<int> command_log(const CommandLine& line, std::stop_token stop) {
  const OpenRun run = TRY(open_run(line));
  int64_t last = 0;
  bool ended = false;
  while (true) {
    TRY(run.reader.each(last, [&](const Event& event) {
      print_event(event, line.json);
      last = event.sequence;
      ended = ended || event.payload_type == "run.ended";
      return !stop.stop_requested() && std::ferror(stdout) == 0;
    }));
    std::fflush(stdout);
    if (!line.follow || ended || std::ferror(stdout) != 0) return exit_ok;
    if (stop.stop_requested()) return exit_interrupted;
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
}

Result<int> command_best(const CommandLine& line) {
  const OpenRun run = TRY(open_run(line));
  const State state = TRY(run.reader.fold());
  if (!state.incumbent)
    return fail(Fault::not_found, "run " + run.name + " has no correct candidate yet");
  const Incumbent& best = *state.incumbent;
  if (!line.out.empty()) {
    TRY(write_candidate(TRY(marathon_home()), run.name, best.candidate, line.out));
  }
  if (line.json) {
    const Json json = {{"candidate", best.candidate}, {"speedup", best.speedup.value},
                       {"low", best.speedup.low},     {"high", best.speedup.high},
                       {"attempt", best.attempt},     {"out", line.out.string()}};
    fmt::print("{}\n", dump_json(json));
    return exit_ok;
  }
  fmt::print("{}  {}  attempt #{}\n", short_hash(best.candidate), speedup_text(best.speedup),
             best.attempt);
  if (line.out.empty()) {
    fmt::print("write its files with: marathon best {} --out DIR\n", run.name);
  } else {
    fmt::print("written to {}\n", line.out.string());
  }
  return exit_ok;
}

Result<int> command_report(const CommandLine& line) {
  const OpenRun run = TRY(open_run(line));
  const ReportFiles files = TRY(write_report(run.folder, line.out));
  if (!files.html.empty()) fmt::print("{}\n", files.html.string());
  if (!files.markdown.empty()) fmt::print("{}\n", files.markdown.string());
  return exit_ok;
}

Result<int> command_export(const CommandLine& line) {
  const OpenRun run = TRY(open_run(line));
  TRY(export_run(run.folder, line.redacted, [](std::string_view text) -> Status {
    if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) {
      return fail_errno("write to standard output", errno);
    }
    return {};
  }));
  return exit_ok;
}

Result<int> command_verify(const CommandLine& line) {
  const OpenRun run = TRY(open_run(line));
  const VerifyReport report = TRY(verify_run(run.folder));
  const Result<State> state = run.reader.fold(false);
  const std::string fingerprint = state ? fold_fingerprint(*state) : "";
  if (line.json) {
    const Json json = {{"run", run.name},
                       {"events", report.events},
                       {"problems", report.problems},
                       {"last_hash", report.last_hash},
                       {"fingerprint", fingerprint},
                       {"ok", report.problems.empty()}};
    fmt::print("{}\n", dump_json(json));
  } else {
    for (const std::string& problem : report.problems) fmt::print("{}\n", problem);
    fmt::print("{}: {} events, {}\nlast hash {}\n", run.name, report.events,
               report.problems.empty() ? "whole and unchanged"
                                       : fmt::format("{} problems", report.problems.size()),
               report.last_hash);
  }
  return report.problems.empty() ? exit_ok : exit_environment;
}

Result<int> command_prune(const CommandLine& line) {
  const fs::path home = TRY(marathon_home());
  const std::string name = TRY(find_run(home, line.run));
  const PruneReport report = TRY(prune_run(home, name, line.dry_run));
  if (line.json) {
    const Json json = {{"removed_files", report.removed_files},
                       {"removed_bytes", report.removed_bytes},
                       {"kept_files", report.kept_files},
                       {"kept_bytes", report.kept_bytes},
                       {"dry_run", line.dry_run}};
    fmt::print("{}\n", dump_json(json));
    return exit_ok;
  }
  fmt::print("{} {} files, {:.1f} MB; {} files, {:.1f} MB kept\n",
             line.dry_run ? "would remove" : "removed", report.removed_files,
             static_cast<double>(report.removed_bytes) / 1e6, report.kept_files,
             static_cast<double>(report.kept_bytes) / 1e6);
  return exit_ok;
}

}  // namespace marathon
