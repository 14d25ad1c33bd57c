#include "app/report_model.h"

#include <fmt/format.h>

#include <cmath>

#include "base/clock.h"
#include "base/hash.h"
#include "base/process.h"
#include "store/store.h"

namespace marathon {

namespace fs = std::filesystem;

namespace {

const Attempt* attempt_with(const State& state, const std::string& candidate) {
  const auto found = state.attempt_of.find(candidate);
  return found == state.attempt_of.end() ? nullptr
                                         : &state.attempts[static_cast<size_t>(found->second)];
}

Result<std::optional<Verdict>> verdict_of(const Reader& reader, const Attempt* attempt) {
  if (!attempt || attempt->finished_sequence == 0) return std::optional<Verdict>();
  const Event event = TRY(reader.at(attempt->finished_sequence));
  const Payload payload = TRY(decode_payload(event.payload_type, event.payload));
  const EvaluationFinished* finished = std::get_if<EvaluationFinished>(&payload);
  return finished ? std::optional<Verdict>(finished->verdict) : std::nullopt;
}

Result<std::string> diff_of(const fs::path& run_folder, const Attempt& from, const Attempt& to) {
  ProcessSpec git;
  git.argv = {"git",
              "-C",
              (run_folder / "workspace").string(),
              "-c",
              "core.quotepath=off",
              "diff",
              "--no-color",
              "--no-ext-diff",
              from.commit,
              to.commit};
  git.environment = clean_environment(run_folder);
  git.timeout_s = 30;
  git.keep_bytes = 512LL << 10;
  const ProcessResult result = TRY(run_process(git));
  if (result.exit_code != 0) return fail(Fault::system, "git diff failed: " + result.err);
  return result.out;
}

}  // namespace

double floor_speedup_of(const Verdict& verdict) {
  double log_sum = 0;
  int64_t count = 0;
  for (const ShapeResult& shape : verdict.shapes) {
    if (shape.set != "listed" || shape.baseline_us <= 0 || shape.floor_us <= 0) continue;
    log_sum += std::log(shape.baseline_us / shape.floor_us);
    ++count;
  }
  return count == 0 ? 0 : std::exp(log_sum / static_cast<double>(count));
}

Result<ReportModel> read_report_model(const fs::path& run_folder) {
  const Reader reader = TRY(Reader::open(run_folder));
  ReportModel model;
  model.state = TRY(reader.fold());
  const State& state = model.state;
  if (!state.start)
    return fail(Fault::not_found, "the log has no start: the run has just been created");
  model.run = state.start->run;
  const Attempt* start = attempt_with(state, state.start->start_candidate);
  const Attempt* best = state.incumbent ? attempt_with(state, state.incumbent->candidate) : nullptr;
  model.start = TRY(verdict_of(reader, start));
  model.best = TRY(verdict_of(reader, best));
  if (start && best && start != best) {
    const Result<std::string> diff = diff_of(run_folder, *start, *best);
    model.diff = diff ? *diff : "no diff: " + diff.error().what;
  }
  if (model.best) model.floor_speedup = floor_speedup_of(*model.best);
  for (const Attempt& attempt : state.attempts) model.confirmed += attempt.became_incumbent ? 1 : 0;
  return model;
}

static std::string gpu_in_words(const GpuEvidence& gpu) {
  std::string text = fmt::format("{}, driver {}", gpu.name, gpu.driver);
  if (gpu.sm_clock_mhz > 0)
    text +=
        fmt::format("; SM clock {:.0f} MHz ({:.0f}–{:.0f}), memory {:.0f} MHz", gpu.sm_clock_mhz,
                    gpu.sm_clock_min_mhz, gpu.sm_clock_max_mhz, gpu.memory_clock_mhz);
  if (gpu.power_max_w > 0)
    text += fmt::format("; {:.0f} W, at most {:.0f} W", gpu.power_w, gpu.power_max_w);
  if (gpu.temperature_max_c > 0) text += fmt::format("; at most {:.0f} °C", gpu.temperature_max_c);
  if (!gpu.throttled.empty()) text += "; clocks held down: " + gpu.throttled;
  if (gpu.ecc_errors > 0) text += fmt::format("; {} uncorrected ECC errors", gpu.ecc_errors);
  if (gpu.other_processes > 0)
    text += fmt::format("; {} other processes had the GPU open", gpu.other_processes);
  if (!gpu.missing.empty()) text += "; not read: " + gpu.missing;
  return text;
}

std::vector<std::pair<std::string, std::string>> how_it_was_measured(const ReportModel& model) {
  std::vector<std::pair<std::string, std::string>> rows;
  const State& state = model.state;
  rows.emplace_back("task", fmt::format("{}, hash {}", state.start->task_name,
                                        short_hash(state.start->task_hash)));
  rows.emplace_back("agent", fmt::format("{} ({}), seed {}", state.start->agent,
                                         state.start->agent_detail, state.start->seed));
  rows.emplace_back(
      "noise", fmt::format("± {:.2f} % by the baseline against itself through the same protocol",
                           100 * state.noise));
  if (!model.best) return rows;
  const Provenance& by = model.best->provenance;
  rows.emplace_back("machine",
                    fmt::format("{}, {}, core {}, Linux {}", by.host, by.cpu, by.core, by.kernel));
  if (!by.elsewhere.empty())
    rows.emplace_back("judged elsewhere", fmt::format("not by this run: {} effort, request {}",
                                                      by.effort, short_hash(by.elsewhere)));
  if (by.gpu) rows.emplace_back("GPU", gpu_in_words(*by.gpu));
  rows.emplace_back("compiler", by.compiler + " " + by.flags);
  rows.emplace_back("sandbox", by.sandbox);
  rows.emplace_back(
      "protocol",
      fmt::format("{} restarts of the processes, {} windows, {} thrown away as disturbed; clocks "
                  "disagree by {:.2f} %; fresh inputs and every timed output checked",
                  by.restarts, by.windows, by.windows_discarded, 100 * by.clock_disagreement));
  rows.emplace_back("measured peaks",
                    fmt::format("{:.1f} GFLOP/s, {:.1f} GB/s", by.peak_gflops, by.peak_gbytes_s));
  rows.emplace_back("best measured at", format_utc(by.started_at_us));
  return rows;
}

}  // namespace marathon
