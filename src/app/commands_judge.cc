// judge, task check, doctor: the commands that need no run.
#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "app/app.h"
#include "app/live.h"
#include "base/file.h"

namespace marathon {

namespace fs = std::filesystem;

namespace {

StageSink stage_printer(bool quiet) {
  return [quiet](const std::string& stage, const std::string& text, double seconds) -> Status {
    return quiet ? Status() : print_stage(stage, text, seconds);
  };
}

void print_shape(const ShapeResult& shape) {
  const std::string speedup = shape.speedup.value > 0 ? speedup_text(shape.speedup) : "";
  const std::string time = shape.time_us > 0 ? fmt::format("{:>9.1f} µs", shape.time_us) : "";
  fmt::print("  {:<24} {:<7} {:<11} {:<12} {:<20} error {:.1e}", shape.name, shape.set,
             to_string(shape.verdict), time, speedup, shape.error);
  if (shape.time_us > 0 && shape.floor_us > 0) {
    fmt::print("  {:.0f} % of the {} floor", 100 * shape.floor_us / shape.time_us, shape.bound_by);
  }
  fmt::print("\n");
  if (!shape.reason.empty()) fmt::print("      {}\n", printable(shape.reason, 300));
}

void print_verdict(const Verdict& verdict) {
  fmt::print("{}", to_string(verdict.kind));
  if (is_measured(verdict.kind))
    fmt::print("  {} over the baseline", speedup_text(verdict.speedup));
  fmt::print("\n");
  for (const std::string& reason : verdict.reasons) fmt::print("  {}\n", printable(reason, 500));
  for (const ShapeResult& shape : verdict.shapes) print_shape(shape);
  if (verdict.profile) {
    for (const std::string& sentence : verdict.profile->sentences) fmt::print("  {}\n", sentence);
  }
}

EvaluationRequest request_of(const CommandLine& line, const fs::path& home,
                             const fs::path& scratch) {
  EvaluationRequest request;
  request.task_folder = line.task;
  request.candidate_folder = line.candidates.empty() ? line.candidate : line.candidates.front();
  request.incumbent_folder = line.incumbent;
  request.effort = line.quick ? Effort::quick : Effort::full;
  request.race = false;
  request.seed = line.input_seed;
  request.unsafe_no_sandbox = line.unsafe_no_sandbox;
  request.cache_folder = home / "cache";
  request.result_folder = scratch;
  return request;
}

// One evaluation as a request file in and a result file out: for another machine or a job queue.
Result<int> judge_request_file(const CommandLine& line, std::stop_token stop) {
  const Json json = TRY(parse_json(TRY(read_file(line.request))));
  const EvaluationRequest request = TRY(request_from_json(json));
  const Verdict verdict = TRY(make_local_executor()->evaluate(request, stage_printer(false), stop));
  TRY(write_file_durable(line.result, dump_json(to_json(verdict)) + "\n"));
  return exit_ok;
}

}  // namespace

Status print_stage(const std::string& stage, const std::string& text, double seconds) {
  fmt::print(stderr, "{:<8} {}  ({:.1f} s)\n", stage, printable(text, 200), seconds);
  return {};
}

Result<int> command_judge(const CommandLine& line, std::stop_token stop) {
  std::error_code none;
  if (!line.pack.empty()) return command_pack(line);
  if (fs::is_directory(line.request, none)) return command_judge_packed(line, stop);
  if (!line.request.empty()) return judge_request_file(line, stop);
  const TempFolder scratch = TRY(TempFolder::make("marathon-judge"));
  EvaluationRequest request = request_of(line, TRY(marathon_home()), scratch.path());
  if (request.candidate_folder.empty()) {
    const LoadedTask task = TRY(load_task(line.task));
    request.candidate_folder = task.folder / task.task.files.start;
  }
  const Verdict verdict =
      TRY(make_local_executor()->evaluate(request, stage_printer(line.json), stop));
  if (line.json) {
    fmt::print("{}\n", dump_json(to_json(verdict)));
  } else {
    print_verdict(verdict);
  }
  return exit_ok;
}

Result<int> command_task_check(const CommandLine& line, std::stop_token stop) {
  const TempFolder scratch = TRY(TempFolder::make("marathon-check"));
  const EvaluationRequest request = request_of(line, TRY(marathon_home()), scratch.path());
  const TaskCheck check = TRY(check_task(request, stop));
  if (line.json) {
    Json json = {{"ok", check.ok}, {"diagnostics", Json::array()}, {"mutants", Json::array()}};
    for (const Diagnostic& diagnostic : check.diagnostics)
      json["diagnostics"].push_back(to_string(diagnostic));
    for (const MutantResult& mutant : check.mutants) {
      json["mutants"].push_back({{"mutant", mutant.mutant},
                                 {"shape", mutant.shape},
                                 {"verdict", to_string(mutant.verdict)},
                                 {"as_expected", mutant.as_expected},
                                 {"reason", mutant.reason}});
    }
    if (check.start) json["start"] = to_json(*check.start);
    fmt::print("{}\n", dump_json(json));
    return check.ok ? exit_ok : exit_usage;
  }
  for (const Diagnostic& diagnostic : check.diagnostics) fmt::print("{}\n", to_string(diagnostic));
  for (const MutantResult& mutant : check.mutants) {
    fmt::print("{} {:<28} {:<24} {:<12} {}\n", mutant.as_expected ? "ok  " : "FAIL", mutant.mutant,
               mutant.shape, to_string(mutant.verdict), printable(mutant.reason, 120));
  }
  if (check.start) {
    fmt::print("\nthe starting solution: ");
    print_verdict(*check.start);
  }
  fmt::print("{}\n", check.ok ? "the task is sound" : "the task is not sound: see the lines above");
  return check.ok ? exit_ok : exit_usage;
}

Result<int> command_doctor(const CommandLine& line) {
  const fs::path home = TRY(marathon_home());
  const std::vector<Finding> findings = examine_machine(home / "cache");
  bool good = true;
  Json list = Json::array();
  for (const Finding& finding : findings) {
    good = good && finding.good;
    list.push_back({{"topic", finding.topic},
                    {"state", finding.state},
                    {"advice", finding.advice},
                    {"good", finding.good}});
    if (!line.json) {
      fmt::print("{}  {:<14} {}\n", finding.good ? "ok" : "! ", finding.topic, finding.state);
      if (!finding.advice.empty()) fmt::print("                    {}\n", finding.advice);
    }
  }
  if (line.json) fmt::print("{}\n", dump_json(Json{{"ok", good}, {"findings", list}}));
  return good ? exit_ok : exit_environment;
}

}  // namespace marathon
