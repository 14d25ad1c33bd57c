#include "bench/request.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace marathon {

Json to_json(const Peaks& peaks) {
  return {{"gflops", peaks.gflops},
          {"l1_gbytes_s", peaks.l1_gbytes_s},
          {"l2_gbytes_s", peaks.l2_gbytes_s},
          {"l3_gbytes_s", peaks.l3_gbytes_s},
          {"memory_gbytes_s", peaks.memory_gbytes_s},
          {"gbytes_s", peaks.memory_gbytes_s}};
}

Peaks peaks_from(const Json& json) {
  Peaks peaks{json_double(json, "gflops"), json_double(json, "l1_gbytes_s"),
              json_double(json, "l2_gbytes_s"), json_double(json, "l3_gbytes_s"),
              json_double(json, "memory_gbytes_s")};
  // One figure alone is that of memory; what the caches can do is then not known.
  if (peaks.memory_gbytes_s <= 0) peaks.memory_gbytes_s = json_double(json, "gbytes_s");
  return peaks;
}

namespace {

Result<BenchMode> mode_of(const std::string& name) {
  if (name == "evaluate") return BenchMode::evaluate;
  if (name == "noise") return BenchMode::noise;
  if (name == "mutants") return BenchMode::mutants;
  if (name == "oracles") return BenchMode::oracles;
  if (name == "peaks") return BenchMode::peaks;
  if (name == "device") return BenchMode::device;
  if (name == "run-once") return BenchMode::run_once;
  if (name == "pairs") return BenchMode::pairs;
  return fail(Fault::invalid,
              "the request's mode is '" + name +
                  "': want evaluate, noise, pairs, mutants, oracles, peaks, device or run-once");
}

Status require(const std::filesystem::path& path, const char* name) {
  if (path.empty()) return fail(Fault::invalid, std::string("the request lacks '") + name + "'");
  if (!std::filesystem::exists(path))
    return fail(Fault::not_found, std::string(name) + ": no file " + path.string());
  return {};
}

Result<std::vector<std::filesystem::path>> files_of(const Json& json, const char* name) {
  std::vector<std::filesystem::path> files;
  if (!json.contains(name)) return files;
  if (!json.at(name).is_array())
    return fail(Fault::invalid, std::string("the request's '") + name + "' is no list");
  for (const Json& file : json.at(name)) {
    if (!file.is_string())
      return fail(Fault::invalid, std::string("the request's '") + name + "' holds no file names");
    files.emplace_back(file.get<std::string>());
    TRY(require(files.back(), name));
  }
  return files;
}

Result<std::vector<std::string>> words_of(const Json& json) {
  std::vector<std::string> words;
  if (json.is_array()) {
    for (const Json& word : json) {
      if (word.is_string()) words.push_back(word.get<std::string>());
    }
    if (words.size() == json.size()) return words;
  }
  return fail(Fault::invalid, "the request's 'tool' is no list of words");
}

}  // namespace

Result<BenchRequest> bench_request_from(const Json& json) {
  if (!json.is_object()) return fail(Fault::invalid, "a request is a JSON object");
  BenchRequest request;
  request.mode = TRY(mode_of(json_string(json, "mode")));
  request.task_folder = json_string(json, "task_folder");
  request.candidate = json_string(json, "candidate");
  request.incumbent = json_string(json, "incumbent");
  request.baseline = json_string(json, "baseline");
  request.oracle = json_string(json, "oracle");
  request.emulation = json_string(json, "emulation");
  request.worker = json_string(json, "worker");
  request.temp_folder = json_string(json, "temp_folder", "/tmp");
  request.quick = json_string(json, "effort") == "quick";
  request.race = json_bool(json, "race");
  request.unsafe_no_sandbox = json_bool(json, "unsafe_no_sandbox");
  request.incumbent_speedup = json_double(json, "incumbent_speedup");
  request.noise = json_double(json, "noise");
  if (json.contains("seed") && json.at("seed").is_number_integer())
    request.seed = json.at("seed").get<uint64_t>();
  request.core = json_int(json, "core", -1);
  if (request.core >= 1024)
    return fail(Fault::invalid, "the request's core is " + std::to_string(request.core) +
                                    ": want -1 (the judge chooses) to 1023");
  request.shape = json_string(json, "shape");
  request.calls = std::clamp<int64_t>(json_int(json, "calls", 1), 1, 1'000'000);
  if (json.contains("tool")) request.tool = TRY(words_of(json.at("tool")));
  request.tool_limit_s = json_double(json, "tool_limit_s", request.tool_limit_s);
  request.pairs = std::clamp<int64_t>(json_int(json, "pairs", 1), 1, 100'000);
  request.judge_cubin = json_string(json, "judge_cubin");
  request.gpu = json_int(json, "gpu");
  request.cpu_oracle = json_string(json, "cpu_oracle");
  request.oracle_flops = json_double(json, "oracle_flops", request.oracle_flops);
  request.candidate_cubins = TRY(files_of(json, "candidate_cubins"));
  request.incumbent_cubins = TRY(files_of(json, "incumbent_cubins"));
  request.baseline_cubins = TRY(files_of(json, "baseline_cubins"));
  if (json.contains("peaks")) request.peaks = peaks_from(json.at("peaks"));
  if (request.mode == BenchMode::peaks || request.mode == BenchMode::device) return request;
  TRY(require(request.task_folder / "task.toml", "task_folder"));
  TRY(require(request.oracle, "oracle"));
  TRY(require(request.emulation, "emulation"));
  if (request.mode == BenchMode::oracles) {
    TRY(require(request.judge_cubin, "judge_cubin"));
    TRY(require(request.cpu_oracle, "cpu_oracle"));
    return request;
  }
  TRY(require(request.candidate, "candidate"));
  TRY(require(request.baseline, "baseline"));
  TRY(require(request.worker, "worker"));
  if (!request.incumbent.empty()) TRY(require(request.incumbent, "incumbent"));
  return request;
}

void print_stage(const std::string& stage, const std::string& text, double seconds) {
  const Json line = {{"stage", stage}, {"text", text}, {"seconds", seconds}};
  std::printf("%s\n", dump_json(line).c_str());
  std::fflush(stdout);
}

}  // namespace marathon
