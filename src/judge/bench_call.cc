#include "judge/bench_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/file.h"
#include "base/random.h"

namespace marathon {

namespace fs = std::filesystem;

namespace {

constexpr int64_t peaks_live_us = 12LL * 3600 * 1'000'000;

// The longest that an honest evaluation can take: every call up to its limit, and the judge's own
// work.
double bench_limit_s(const Task& task) {
  const double calls =
      static_cast<double>(task.measure.restarts * (task.measure.rounds + 1) * 3 * 64 + 64);
  return std::min(7200.0, 300 + task.measure.timeout_s * std::min(calls, 200.0));
}

// marathon-judge writes one line of JSON a stage. All of it is read at the end: stages are seconds
// apart and the live line of a person is fed by our own stages meanwhile.
Status pass_on_stages(const std::string& out, const StageSink& stage) {
  size_t at = 0;
  while (at < out.size()) {
    const size_t end = std::min(out.find('\n', at), out.size());
    if (const Result<Json> line = parse_json(std::string_view(out).substr(at, end - at));
        line && line->is_object()) {
      TRY(stage(json_string(*line, "stage"), json_string(*line, "text"),
                json_double(*line, "seconds")));
    }
    at = end + 1;
  }
  return {};
}

// "invalid: the sentence" as marathon-judge prints it.
tl::unexpected<Error> bench_error(const ProcessResult& result) {
  const std::string text = result.err.empty()
                               ? fmt::format("exit {}, signal {}", result.exit_code, result.signal)
                               : result.err;
  for (const Fault fault :
       {Fault::invalid, Fault::not_found, Fault::busy, Fault::retry, Fault::no_space,
        Fault::cancelled, Fault::timeout, Fault::corrupt, Fault::system}) {
    const std::string prefix = std::string(to_string(fault)) + ": ";
    if (text.starts_with(prefix))
      return fail(fault,
                  text.substr(prefix.size(), text.find_last_not_of('\n') + 1 - prefix.size()));
  }
  return fail(Fault::system, "marathon-judge failed: " + text);
}

Result<Json> call(const Json& request, const fs::path& scratch, double limit_s,
                  const StageSink& stage, std::stop_token stop) {
  const fs::path request_file = scratch / "request.json", result_file = scratch / "result.json";
  TRY(write_file(request_file, dump_json(request)));
  ProcessSpec spec;
  spec.argv = {TRY(helper_program("marathon-judge")).string(), "--request", request_file.string(),
               "--result", result_file.string()};
  spec.environment = clean_environment(scratch);
  spec.timeout_s = limit_s;
  const ProcessResult result = TRY(run_process(spec, stop));
  TRY(pass_on_stages(result.out, stage));
  if (result.timed_out)
    return fail(Fault::timeout, fmt::format("marathon-judge took longer than {:.0f} s", limit_s));
  if (result.exit_code != 0) return bench_error(result);
  return parse_json(TRY(read_file(result_file)));
}

// This boot and this marathon-judge: another probe or another machine state measures anew.
std::string peaks_identity() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  const Result<fs::path> judge = helper_program("marathon-judge");
  std::error_code none;
  if (judge)
    id += fmt::format("|{}|{}", fs::file_size(*judge, none),
                      fs::last_write_time(*judge, none).time_since_epoch().count());
  return id;
}

Result<std::vector<SourceFile>> read_files(const fs::path& folder,
                                           const std::vector<fs::path>& files) {
  std::vector<SourceFile> read;
  for (const fs::path& file : files)
    read.push_back({file, TRY(read_file(folder / file, 64 << 20))});
  return read;
}

Status add_frozen(const LoadedTask& task, std::vector<SourceFile>& files) {
  for (const fs::path& frozen : TRY(frozen_files(task))) {
    // What the task froze wins over a file of the same name.
    std::erase_if(files, [&](const SourceFile& file) { return file.path == frozen; });
    files.push_back({frozen, TRY(read_file(task.folder / frozen, 64 << 20))});
  }
  return {};
}

}  // namespace

Result<BuildJob> implementation_job(const LoadedTask& task, const fs::path& folder,
                                    const EvaluationRequest& request) {
  BuildJob job;
  std::vector<fs::path> wanted = TRY(editable_files(task.task, folder));
  for (const std::string& source : task.task.build.sources) {
    if (std::find(wanted.begin(), wanted.end(), fs::path(source)) == wanted.end() &&
        fs::is_regular_file(folder / source))
      wanted.emplace_back(source);
  }
  job.files = TRY(read_files(folder, wanted));
  TRY(add_frozen(task, job.files));
  job.sources = task.task.build.sources;
  job.flags = task.task.build.flags;
  job.timeout_s = task.task.build.timeout_s;
  job.max_memory_bytes = task.task.build.max_memory_bytes;
  job.unsafe_no_sandbox = request.unsafe_no_sandbox;
  const Result<std::string> params = read_file(folder / params_file, 1 << 20);
  if (params && !task.task.parameters.empty()) {
    const Configuration configuration = TRY(parse_params_toml(task.task, *params));
    if (!is_valid(task.task, configuration))
      return fail(Fault::invalid, "params.toml: the values break a constraint of the task");
    for (std::string& word : build_words(task.task, configuration))
      job.flags.push_back(std::move(word));
  }
  // The compiler never sees params.toml: two candidates that differ in its comments share one
  // build.
  std::erase_if(job.files,
                [](const SourceFile& file) { return file.path == fs::path(params_file); });
  return job;
}

Result<BuildJob> oracle_job(const LoadedTask& task, const std::string& real,
                            const EvaluationRequest& request) {
  BuildJob job;
  job.files = {{task.task.files.oracle, TRY(read_file(task.folder / task.task.files.oracle))}};
  TRY(add_frozen(task, job.files));
  job.sources = {task.task.files.oracle};
  job.flags = {"-std=c++20", "-O3", "-march=native", "-Wno-psabi", "-DMARATHON_REAL=" + real};
  job.timeout_s = task.task.build.timeout_s;
  job.unsafe_no_sandbox = request.unsafe_no_sandbox;
  return job;
}

Status build_trusted(const LoadedTask& task, const EvaluationRequest& request, Libraries& libraries,
                     std::stop_token stop) {
  struct Part {
    const char* name;
    BuildJob job;
    BuildOutcome* outcome;
  };
  const Part parts[] = {
      {"baseline", TRY(implementation_job(task, task.folder / task.task.files.baseline, request)),
       &libraries.baseline},
      {"oracle", TRY(oracle_job(task, "double", request)), &libraries.oracle},
      {"oracle with real = float", TRY(oracle_job(task, "float", request)), &libraries.emulation},
  };
  for (const Part& part : parts) {
    *part.outcome = TRY(build(part.job, request.cache_folder, {}, stop));
    if (!part.outcome->ok)
      return fail(Fault::invalid,
                  fmt::format("the task's {} does not build: {}", part.name, part.outcome->reason));
  }
  return {};
}

Result<Json> measured_peaks(const EvaluationRequest& request, std::stop_token stop) {
  const fs::path file = request.cache_folder / "peaks.json";
  const std::string boot = peaks_identity();
  if (const Result<std::string> text = read_file(file, 1 << 16)) {
    const Result<Json> known = parse_json(*text);
    if (known && json_string(*known, "boot") == boot && json_string(*known, "cpu") == cpu_model() &&
        wall_time_us() - json_int(*known, "measured_at_us") < peaks_live_us) {
      return known->at("peaks");
    }
  }
  const TempFolder scratch = TRY(TempFolder::make("marathon-peaks"));
  const Json peaks = TRY(call(
      {{"mode", "peaks"}, {"core", request.core}}, scratch.path(), 120,
      [](const std::string&, const std::string&, double) { return Status(); }, stop));
  TRY(make_folders(request.cache_folder));
  const Json known = {
      {"boot", boot}, {"cpu", cpu_model()}, {"measured_at_us", wall_time_us()}, {"peaks", peaks}};
  TRY(write_file_durable(file, dump_json(known)));
  return peaks;
}

Result<Json> call_bench(const std::string& mode, const LoadedTask& task,
                        const EvaluationRequest& request, const Libraries& libraries,
                        const Json& peaks, const StageSink& stage, std::stop_token stop) {
  const TempFolder scratch = TRY(TempFolder::make("marathon-bench"));
  const Json json = {{"mode", mode},
                     {"task_folder", task.folder.string()},
                     {"candidate", libraries.candidate.library.string()},
                     {"incumbent", libraries.incumbent.library.string()},
                     {"baseline", libraries.baseline.library.string()},
                     {"oracle", libraries.oracle.library.string()},
                     {"emulation", libraries.emulation.library.string()},
                     {"worker", TRY(helper_program("marathon-worker")).string()},
                     {"effort", request.effort == Effort::quick ? "quick" : "full"},
                     {"race", request.race},
                     {"incumbent_speedup", request.incumbent_speedup},
                     {"noise", request.noise},
                     {"seed", request.seed == 0 ? secret_seed() : request.seed},
                     {"core", request.core},
                     {"unsafe_no_sandbox", request.unsafe_no_sandbox},
                     {"peaks", peaks},
                     {"temp_folder", scratch.path().string()}};
  return call(json, scratch.path(), bench_limit_s(task.task), stage, stop);
}

}  // namespace marathon
