#include "judge/bench_call.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/random.h"

namespace marathon {

namespace fs = std::filesystem;

namespace {

constexpr int64_t peaks_live_us = 12LL * 3600 * 1'000'000;
constexpr double peaks_limit_s = 120;
constexpr size_t max_line_bytes = 65536;

Status no_stages(const std::string&, const std::string&, double) { return {}; }

// Lines of JSON, one a stage, from the standard output of marathon-judge.
class StageReader {
 public:
  explicit StageReader(const StageSink& stage) : stage_(stage) {}

  // Passes on what is there; false once the stream is closed.
  Result<bool> read(int fd) {
    std::array<char, 4096> buffer{};
    const ssize_t got = ::read(fd, buffer.data(), buffer.size());
    if (got == 0) return false;
    if (got < 0) return errno == EAGAIN || errno == EINTR;
    text_.append(buffer.data(), static_cast<size_t>(got));
    for (size_t end = text_.find('\n'); end != std::string::npos; end = text_.find('\n')) {
      TRY(pass_on(std::string_view(text_).substr(0, end)));
      text_.erase(0, end + 1);
    }
    if (text_.size() > max_line_bytes) text_.clear();  // no stage is that long
    return true;
  }

 private:
  Status pass_on(std::string_view line) {
    const Result<Json> json = parse_json(line);
    if (!json || !json->is_object()) return {};
    return stage_(json_string(*json, "stage"), json_string(*json, "text"),
                  json_double(*json, "seconds"));
  }
  const StageSink& stage_;
  std::string text_;
};

// Runs marathon-judge to its end. run_process() keeps output until the end; stages are to be seen
// while they happen.
class BenchProcess {
 public:
  BenchProcess(ProcessSpec spec, const StageSink& stage, std::stop_token stop)
      : spec_(std::move(spec)), stages_(stage), stop_(std::move(stop)) {}

  Result<ProcessResult> run() {
    const Fd wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    const std::stop_callback on_stop(stop_, [&] {
      const uint64_t one = 1;
      if (::write(wake.get(), &one, sizeof one) < 0) return;
    });
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return fail_errno("pipe", errno);
    Fd read(ends[0]), write(ends[1]);
    spec_.pass_fds = {{write.get(), STDOUT_FILENO}};
    Process process = TRY(Process::start(spec_));
    write.reset();
    TRY(follow(process, read.get(), wake.get()));
    for (pollfd rest{read.get(), POLLIN, 0}; ::poll(&rest, 1, 0) > 0;) {
      if (!TRY(stages_.read(read.get()))) break;
    }
    ProcessResult result = process.result();
    result.timed_out = timed_out_;
    return result;
  }

 private:
  Status follow(Process& process, int out, int wake) {
    const int64_t until_us = monotonic_us() + static_cast<int64_t>(spec_.timeout_s * 1e6);
    bool open = true;
    while (true) {
      pollfd fds[3] = {
          {open ? out : -1, POLLIN, 0}, {process.pidfd(), POLLIN, 0}, {wake, POLLIN, 0}};
      ::poll(fds, 3, 100);
      if (fds[0].revents) open = TRY(stages_.read(out));
      if (stop_.stop_requested())
        return fail(Fault::cancelled, "stopped while a candidate was measured");
      // Also empties its error stream, so that it never waits for us.
      if (TRY(process.wait(0.001))) return {};
      if (monotonic_us() > until_us) {
        process.kill_and_sweep();
        timed_out_ = true;
        return {};
      }
    }
  }

  ProcessSpec spec_;
  StageReader stages_;
  std::stop_token stop_;
  bool timed_out_ = false;
};

// "invalid: the sentence" as marathon-judge prints it. Anything else is a fault of ours, never the
// candidate's.
tl::unexpected<Error> bench_error(const ProcessResult& result) {
  const std::string text = result.err.substr(0, result.err.find_last_not_of('\n') + 1);
  for (const Fault fault :
       {Fault::invalid, Fault::not_found, Fault::busy, Fault::retry, Fault::no_space,
        Fault::cancelled, Fault::timeout, Fault::corrupt, Fault::system}) {
    const std::string prefix = std::string(to_string(fault)) + ": ";
    // A crash after such a line is a crash.
    if (result.signal == 0 && text.starts_with(prefix))
      return fail(fault, text.substr(prefix.size()));
  }
  return fail(Fault::system,
              fmt::format("marathon-judge ended by itself ({}): {}; this is a fault of Marathon or "
                          "of this machine, not of the candidate",
                          result.signal ? fmt::format("signal {}", result.signal)
                                        : fmt::format("exit code {}", result.exit_code),
                          text.empty() ? "it said nothing" : text));
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
  const ProcessResult result = TRY(BenchProcess(std::move(spec), stage, std::move(stop)).run());
  if (result.timed_out)
    return fail(Fault::timeout, fmt::format("marathon-judge took longer than {:.0f} s", limit_s));
  if (result.exit_code != 0) return bench_error(result);
  const Result<std::string> text = read_file(result_file);
  if (!text) return fail(Fault::system, "marathon-judge left no result: " + text.error().what);
  Result<Json> json = parse_json(*text);
  if (json && json->is_object()) return json;
  return fail(Fault::system, "marathon-judge left a result that is no JSON object" +
                                 (json ? "" : ": " + json.error().what));
}

// This boot and this marathon-judge: another probe or another state of the machine measures anew.
std::string probe_identity() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  std::error_code none;
  if (const Result<fs::path> judge = helper_program("marathon-judge")) {
    id += fmt::format("|{}|{}", fs::file_size(*judge, none),
                      fs::last_write_time(*judge, none).time_since_epoch().count());
  }
  return id;
}

// A folder that several machines share keeps one file for each of them.
fs::path peaks_file(const EvaluationRequest& request, const fs::path& cubin) {
  const std::string machine =
      sha256_hex(probe_identity() + cpu_identity() + std::to_string(request.core) + cubin.string());
  return request.cache_folder / fmt::format("peaks-{}.json", short_hash(machine));
}

bool are_peaks(const Json& json) {
  return json.is_object() && json_double(json, "gflops") > 0 &&
         std::isfinite(json_double(json, "gflops"));
}

Result<Json> known_peaks(const fs::path& file) {
  const Json known = TRY(parse_json(TRY(read_file(file, 1 << 16))));
  const int64_t age_us = wall_time_us() - json_int(known, "measured_at_us");
  if (known.is_object() && age_us >= 0 && age_us < peaks_live_us && known.contains("peaks") &&
      are_peaks(known.at("peaks")))
    return known.at("peaks");
  return fail(Fault::not_found, "too old");
}

}  // namespace

double bench_limit_s(const Task& task) {
  // Every call may take its limit once; each restart runs three implementations, and the judge
  // solves every shape by the oracle, slowly. The judge ends a hanging call itself: this is the
  // limit of a judge that hangs.
  const MeasurePlan& plan = task.measure;
  const double shapes = static_cast<double>(std::max<size_t>(task.shapes.size(), 1));
  const double restarts = static_cast<double>(2 * plan.restarts + 4);
  return std::min(4 * 3600.0, 600 + plan.timeout_s * shapes * restarts * 3);
}

Result<Json> ask_bench(const Json& request, double limit_s, std::stop_token stop) {
  const TempFolder scratch = TRY(TempFolder::make("marathon-ask"));
  return call(request, scratch.path(), limit_s, no_stages, std::move(stop));
}

Result<Json> measured_peaks(const EvaluationRequest& request, const fs::path& cubin,
                            std::stop_token stop) {
  const fs::path file = peaks_file(request, cubin);
  if (Result<Json> known = known_peaks(file)) return known;
  const Json peaks =
      TRY(ask_bench({{"mode", "peaks"}, {"core", request.core}, {"judge_cubin", cubin.string()}},
                    peaks_limit_s, stop));
  if (!are_peaks(peaks))
    return fail(Fault::system, "marathon-judge measured no peaks: " + dump_json(peaks));
  TRY(make_folders(request.cache_folder));
  TRY(write_file_durable(file, dump_json({{"measured_at_us", wall_time_us()}, {"peaks", peaks}})));
  return peaks;
}

static Json names_of(const std::vector<fs::path>& files) {
  Json names = Json::array();
  for (const fs::path& file : files) names.push_back(file.string());
  return names;
}

// What every request about implementations says.
static Result<Json> request_for(const std::string& mode, const LoadedTask& task,
                                const EvaluationRequest& request, const Libraries& libraries,
                                const fs::path& scratch, std::stop_token stop) {
  Json json = {{"mode", mode},
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
               {"temp_folder", scratch.string()}};
  if (is_gpu_task(task.task)) {
    json["cpu_oracle"] = libraries.cpu_oracle.library.string();
    json["judge_cubin"] = TRY(judge_cubin(request, std::move(stop))).string();
    json["candidate_cubins"] = names_of(libraries.candidate.cubins);
    json["incumbent_cubins"] = names_of(libraries.incumbent.cubins);
    json["baseline_cubins"] = names_of(libraries.baseline.cubins);
  }
  return json;
}

Result<Json> call_bench(const std::string& mode, const LoadedTask& task,
                        const EvaluationRequest& request, const Libraries& libraries,
                        const Json& peaks, const StageSink& stage, std::stop_token stop) {
  const TempFolder scratch = TRY(TempFolder::make("marathon-bench"));
  Json json = TRY(request_for(mode, task, request, libraries, scratch.path(), stop));
  json["peaks"] = peaks;
  return call(json, scratch.path(), bench_limit_s(task.task), stage, stop);
}

Result<Json> call_bench_once(const LoadedTask& task, const EvaluationRequest& request,
                             const Libraries& libraries, const Json& what, double limit_s,
                             std::stop_token stop) {
  const TempFolder scratch = TRY(TempFolder::make("marathon-bench"));
  Json json = TRY(request_for("run-once", task, request, libraries, scratch.path(), stop));
  json.update(what);
  return call(json, scratch.path(), limit_s, no_stages, std::move(stop));
}

}  // namespace marathon
