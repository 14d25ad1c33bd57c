// judge --pack, judge --request DIR: the two halves of judging on another machine.
#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "app/app.h"
#include "app/live.h"
#include "base/file.h"
#include "base/hash.h"

namespace marathon {

namespace fs = std::filesystem;

namespace {

std::string of(const std::vector<std::string>& texts, size_t i) {
  if (texts.empty()) return "";
  return texts.size() == 1 ? texts.front() : texts[i];
}

Json candidate_json(const PackedCandidate& packed, const JudgedCandidate* judged) {
  Json json = {{"candidate", packed.candidate}, {"name", packed.name}, {"verdict", nullptr}};
  if (!judged) return json;
  const Verdict& verdict = judged->verdict;
  json["verdict"] = to_string(verdict.kind);
  json["speedup"] = verdict.speedup.value;
  json["low"] = verdict.speedup.low;
  json["high"] = verdict.speedup.high;
  json["confirmed"] = verdict.confirmed;
  json["effort"] = judged->quick ? "quick" : "full";
  json["reasons"] = verdict.reasons;
  return json;
}

Json list_of(const JudgeRequest& request, const JudgeResults* results) {
  Json list = Json::array();
  for (const PackedCandidate& packed : request.candidates)
    list.push_back(
        candidate_json(packed, results ? find_judged(*results, packed.candidate) : nullptr));
  return list;
}

}  // namespace

Result<int> command_pack(const CommandLine& line) {
  PackPlan plan;
  plan.task_folder = line.task;
  plan.incumbent_folder = line.incumbent;
  for (size_t i = 0; i < line.candidates.size(); ++i)
    plan.candidates.push_back({line.candidates[i], of(line.notes, i), of(line.categories, i)});
  const JudgeRequest request = TRY(pack_request(plan, line.pack));
  if (line.json) {
    fmt::print("{}\n", dump_json({{"request", request_hash(request)},
                                  {"folder", line.pack.string()},
                                  {"task_hash", request.task_hash},
                                  {"candidates", list_of(request, nullptr)}}));
    return exit_ok;
  }
  fmt::print("{} candidates of task {} are in {} (request {})\n", request.candidates.size(),
             request.task_name, line.pack.string(), short_hash(request_hash(request)));
  fmt::print("there:  marathon judge --request {} --result FILE\n", line.pack.string());
  fmt::print("here:   marathon attempt RUN --from-result FILE\n");
  return exit_ok;
}

Result<int> command_judge_packed(const CommandLine& line, std::stop_token stop) {
  const TempFolder scratch = TRY(TempFolder::make("marathon-judge"));
  PackedJob job;
  job.request_folder = line.request;
  job.result_file = line.result;
  job.how.effort = line.quick ? Effort::quick : Effort::full;
  job.how.race = false;
  job.how.seed = line.input_seed;
  job.how.unsafe_no_sandbox = line.unsafe_no_sandbox;
  job.how.cache_folder = TRY(marathon_home()) / "cache";
  job.how.result_folder = scratch.path();
  std::FILE* out = line.json ? stderr : stdout;
  job.say = [out](const std::string& text) {
    fmt::print(out, "{}\n", printable(text, 300));
    std::fflush(out);
  };
  const JudgeResults results = TRY(judge_packed(job, print_stage, stop));
  if (line.json) {
    fmt::print("{}\n", dump_json({{"request", request_hash(results.request)},
                                  {"result", line.result.string()},
                                  {"candidates", list_of(results.request, &results)}}));
    return exit_ok;
  }
  fmt::print("{} verdicts are in {}; where the run is: marathon attempt RUN --from-result {}\n",
             results.judged.size(), line.result.string(), line.result.string());
  return exit_ok;
}

}  // namespace marathon
