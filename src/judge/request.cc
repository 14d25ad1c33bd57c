// An evaluation as a file: so that the same judge runs here, in a Slurm job, or on another machine.
#include <nlohmann/json.hpp>

#include "judge/judge.h"

namespace marathon {

Json to_json(const EvaluationRequest& request) {
  return {{"schema", 1},
          {"task_folder", request.task_folder.string()},
          {"candidate_folder", request.candidate_folder.string()},
          {"incumbent_folder", request.incumbent_folder.string()},
          {"incumbent_speedup", request.incumbent_speedup},
          {"effort", request.effort == Effort::quick ? "quick" : "full"},
          {"race", request.race},
          {"profile_new_best", request.profile_new_best},
          {"profile", request.profile},
          {"seed", request.seed},
          {"noise", request.noise},
          {"core", request.core},
          {"unsafe_no_sandbox", request.unsafe_no_sandbox},
          {"cache_folder", request.cache_folder.string()},
          {"result_folder", request.result_folder.string()}};
}

Result<EvaluationRequest> request_from_json(const Json& json) {
  if (!json.is_object() || json_int(json, "schema") != 1) {
    return fail(
        Fault::invalid,
        "not a request of schema 1: want an object with \"schema\": 1 (docs/measurement.md)");
  }
  const std::string effort = json_string(json, "effort", "full");
  if (effort != "quick" && effort != "full")
    return fail(Fault::invalid, "effort is '" + effort + "': want quick or full");
  EvaluationRequest request;
  request.task_folder = json_string(json, "task_folder");
  request.candidate_folder = json_string(json, "candidate_folder");
  if (request.task_folder.empty() || request.candidate_folder.empty()) {
    return fail(Fault::invalid, "a request needs task_folder and candidate_folder");
  }
  request.incumbent_folder = json_string(json, "incumbent_folder");
  request.incumbent_speedup = json_double(json, "incumbent_speedup");
  request.effort = effort == "quick" ? Effort::quick : Effort::full;
  request.race = json_bool(json, "race", true);
  request.profile_new_best = json_bool(json, "profile_new_best", true);
  request.profile = json_bool(json, "profile");
  if (json.contains("seed") && json.at("seed").is_number_integer())
    request.seed = json.at("seed").get<uint64_t>();
  request.noise = json_double(json, "noise");
  request.core = json_int(json, "core", -1);
  request.unsafe_no_sandbox = json_bool(json, "unsafe_no_sandbox");
  request.cache_folder = json_string(json, "cache_folder");
  request.result_folder = json_string(json, "result_folder");
  if (request.cache_folder.empty())
    return fail(Fault::invalid, "a request needs cache_folder: where builds are kept");
  return request;
}

}  // namespace marathon
