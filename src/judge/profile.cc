// What bounds a kernel, in the words of a specialist: counters where the machine has them (many
// virtual machines have none), else instruction counts by callgrind, and what the compiler says of
// its loops.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>

#include "base/file.h"
#include "judge/pipeline.h"

namespace marathon {

namespace fs = std::filesystem;

namespace {

constexpr double profile_limit_s = 60;
constexpr int64_t callgrind_calls = 2;

const Shape* shape_to_profile(const Task& task) {
  const Shape* chosen = nullptr;
  for (const Shape& shape : task.shapes) {
    if (shape.set != ShapeSet::listed) continue;
    if (shape.name == task.profile.shape) return &shape;
    if (!chosen || shape.weight > chosen->weight) chosen = &shape;
  }
  return chosen;
}

const ShapeResult* result_of(const Verdict& verdict, const std::string& shape) {
  for (const ShapeResult& result : verdict.shapes) {
    if (result.name == shape) return &result;
  }
  return nullptr;
}

Jail profiler_jail(const LoadedTask& task, const fs::path& library, const fs::path& scratch) {
  Jail jail = toolchain_jail();
  jail.read_only.push_back(task.folder / "task.toml");
  jail.read_only.push_back("/proc");
  jail.read_only.push_back("/etc");
  jail.read_execute.push_back(library);
  if (const Result<fs::path> worker = helper_program("marathon-worker"))
    jail.read_execute.push_back(*worker);
  jail.read_write.push_back(scratch);
  jail.allow_fork = jail.allow_exec = true;
  jail.max_open_files = 1024;
  return jail;
}

class Profiler {
 public:
  Profiler(const LoadedTask& task, const EvaluationRequest& request, const Verdict& verdict,
           std::stop_token stop)
      : task_(task), request_(request), verdict_(verdict), stop_(std::move(stop)) {}

  Result<ProfileSummary> run(const fs::path& raw_file) {
    shape_ = shape_to_profile(task_.task);
    if (!shape_) return fail(Fault::invalid, "the task has no listed shape");
    scratch_.emplace(TRY(TempFolder::make("marathon-profile")));
    add_floor_sentence();
    if (!TRY(count_with_perf())) TRY(count_with_callgrind());
    TRY(read_compiler_remarks());
    if (!raw_file.empty()) TRY(write_file(raw_file, raw_));
    return std::move(summary_);
  }

 private:
  void add_floor_sentence() {
    const ShapeResult* result = result_of(verdict_, shape_->name);
    if (!result || result->time_us <= 0 || result->floor_us <= 0) return;
    const double share = result->floor_us / result->time_us;
    summary_.figures["time_us"] = result->time_us;
    summary_.figures["floor_us"] = result->floor_us;
    summary_.figures["fraction_of_floor"] = share;
    const char* peak = result->bound_by == "memory" ? "the bandwidth of the level its data lie in"
                                                    : "one core's multiply-add peak";
    summary_.sentences.push_back(fmt::format("At {} it reaches {:.0f} % of the {} floor ({}): {}.",
                                             shape_->name, 100 * share, result->bound_by, peak,
                                             share > 0.7    ? "little is left"
                                             : share > 0.35 ? "up to twice the speed is left"
                                                            : "most of the machine is idle"));
    if (result->cold_us > 1.3 * result->time_us) {
      summary_.sentences.push_back(
          fmt::format("With cold caches a call takes {:.1f} times as long.",
                      result->cold_us / result->time_us));
    }
  }

  // A library built for the profiler: the candidate's own flags and, for valgrind, without AVX-512.
  Result<BuildOutcome> library(const std::vector<std::string>& extra) {
    BuildJob job =
        TRY(read_implementation(task_, request_.candidate_folder, Origin::candidate, request_)).job;
    job.flags.push_back("-g1");
    job.flags.insert(job.flags.end(), extra.begin(), extra.end());
    return build(job, request_.cache_folder, {}, stop_);
  }

  Result<ProcessResult> run_under(const std::vector<std::string>& tool, const fs::path& lib,
                                  int64_t calls) {
    ProcessSpec spec;
    spec.argv = tool;
    const std::vector<std::string> worker = {TRY(helper_program("marathon-worker")).string(),
                                             "profile",
                                             "--lib",
                                             lib.string(),
                                             "--task-folder",
                                             task_.folder.string(),
                                             "--shape",
                                             shape_->name,
                                             "--calls",
                                             std::to_string(calls)};
    spec.argv.insert(spec.argv.end(), worker.begin(), worker.end());
    spec.folder = scratch_->path();
    spec.environment = clean_environment(scratch_->path());
    spec.timeout_s = profile_limit_s;
    spec.keep_bytes = 1 << 20;
    return run_jailed(std::move(spec), profiler_jail(task_, lib, scratch_->path()),
                      scratch_->path(), request_.unsafe_no_sandbox, stop_);
  }

  Result<bool> count_with_perf() {
    if (!has_counters()) return false;
    const BuildOutcome built = TRY(library({}));
    if (!built.ok) return false;
    const std::string events = "instructions,cycles,cache-misses,branch-misses";
    // perf needs perf_event_open, which the jail refuses: it stands outside and the worker inside
    // has run this very code in the jail before.
    std::map<std::string, double> few = TRY(perf_counts(events, built.library, 5)),
                                  many = TRY(perf_counts(events, built.library, 25));
    if (few["instructions"] <= 0 || many["instructions"] <= few["instructions"]) return false;
    summary_.source = "perf";
    const auto per_call = [&](const char* name) { return (many[name] - few[name]) / 20; };
    const double instructions = per_call("instructions"),
                 cycles = std::max(1.0, per_call("cycles"));
    summary_.figures["instructions_per_call"] = instructions;
    summary_.figures["instructions_per_cycle"] = instructions / cycles;
    summary_.figures["cache_misses_per_call"] = per_call("cache-misses");
    summary_.figures["branch_misses_per_call"] = per_call("branch-misses");
    summary_.sentences.push_back(
        fmt::format("{:.2f} instructions a cycle, {:.3g} instructions a call.",
                    instructions / cycles, instructions));
    add_flop_sentence(instructions);
    return true;
  }

  static bool has_counters() {
    if (!find_program("perf")) return false;
    ProcessSpec spec;
    spec.argv = {"perf", "stat", "-x,", "-e", "instructions", "true"};
    spec.environment = clean_environment("/tmp");
    spec.timeout_s = 10;
    const Result<ProcessResult> result = run_process(spec);
    return result && result->exit_code == 0 &&
           result->err.find("not supported") == std::string::npos &&
           result->err.find("not counted") == std::string::npos;
  }

  Result<std::map<std::string, double>> perf_counts(const std::string& events, const fs::path& lib,
                                                    int64_t calls) {
    ProcessSpec spec;
    spec.argv = {"perf",
                 "stat",
                 "-x,",
                 "-e",
                 events + ":u",
                 TRY(helper_program("marathon-worker")).string(),
                 "profile",
                 "--lib",
                 lib.string(),
                 "--task-folder",
                 task_.folder.string(),
                 "--shape",
                 shape_->name,
                 "--calls",
                 std::to_string(calls)};
    spec.folder = scratch_->path();
    spec.environment = clean_environment(scratch_->path());
    spec.timeout_s = profile_limit_s;
    const ProcessResult result = TRY(run_process(spec, stop_));
    raw_ += result.err;
    std::map<std::string, double> counts;
    size_t at = 0;
    while (at < result.err.size()) {
      const size_t end = std::min(result.err.find('\n', at), result.err.size());
      const std::string line = result.err.substr(at, end - at);
      const size_t first = line.find(','),
                   second = first == std::string::npos ? first : line.find(',', first + 1);
      if (second != std::string::npos) {
        std::string name = line.substr(second + 1, line.find(',', second + 1) - second - 1);
        if (name.ends_with(":u")) name.resize(name.size() - 2);
        counts[name] = std::atof(line.c_str());
      }
      at = end + 1;
    }
    return counts;
  }

  Status count_with_callgrind() {
    if (!find_program("valgrind")) {
      summary_.source = "compiler";
      summary_.sentences.push_back(
          "No counters on this machine and no valgrind: install valgrind for instruction counts.");
      return {};
    }
    const BuildOutcome built =
        TRY(library({"-mno-avx512f", "-mno-avx512bf16", "-mno-avx512vp2intersect"}));
    if (!built.ok) return {};
    const fs::path out = scratch_->path() / "callgrind.out";
    const ProcessResult result =
        TRY(run_under({"valgrind", "--tool=callgrind", "--toggle-collect=marathon_run",
                       "--cache-sim=yes", "--callgrind-out-file=" + out.string()},
                      built.library, callgrind_calls));
    raw_ += result.err;
    summary_.source = "callgrind";
    if (result.exit_code != 0) {
      summary_.sentences.push_back(
          result.signal == 4 || result.err.find("unrecognised instruction") != std::string::npos
              ? "No instruction count: valgrind does not know an instruction of this build."
              : "No instruction count: valgrind failed.");
      return {};
    }
    read_callgrind(out);
    return {};
  }

  // "summary: Ir Dr Dw I1mr D1mr D1mw ILmr DLmr DLmw" in the out file.
  void read_callgrind(const fs::path& out) {
    const Result<std::string> text = read_file(out, 64 << 20);
    if (!text) return;
    const size_t at = text->find("\nsummary: ");
    double ir = 0, reads = 0, writes = 0, i1 = 0, read_misses = 0, write_misses = 0;
    if (at == std::string::npos ||
        std::sscanf(text->c_str() + at, "\nsummary: %lf %lf %lf %lf %lf %lf", &ir, &reads, &writes,
                    &i1, &read_misses, &write_misses) < 6)
      return;
    const double calls = static_cast<double>(callgrind_calls);
    summary_.figures["instructions_per_call"] = ir / calls;
    summary_.figures["memory_accesses_per_call"] = (reads + writes) / calls;
    summary_.figures["l1_miss_rate"] = (read_misses + write_misses) / std::max(1.0, reads + writes);
    summary_.sentences.push_back(
        fmt::format("{:.3g} instructions and {:.3g} memory accesses a call, {:.1f} % of these miss L1 "
                    "(callgrind, built without AVX-512).",
                    ir / calls, (reads + writes) / calls, 100 * summary_.figures["l1_miss_rate"]));
    add_flop_sentence(ir / calls);
  }

  void add_flop_sentence(double instructions) {
    if (!task_.task.floor.flops || instructions <= 0) return;
    const Result<int64_t> flops =
        task_.task.floor.flops->evaluate([&](std::string_view name) -> std::optional<int64_t> {
          const auto found = shape_->dims.find(std::string(name));
          return found == shape_->dims.end() ? std::nullopt : std::optional<int64_t>(found->second);
        });
    if (!flops) return;
    const double each = static_cast<double>(*flops) / instructions;
    summary_.figures["flops_per_instruction"] = each;
    summary_.sentences.push_back(
        fmt::format("{:.1f} useful floating-point operations an instruction: {}.", each,
                    each < 2   ? "mostly scalar or overhead"
                    : each < 6 ? "vectorised, with much overhead"
                               : "well vectorised"));
  }

  // g++'s remarks on the candidate's own files: which loops became vectors and which did not.
  Status read_compiler_remarks() {
    BuildJob job =
        TRY(read_implementation(task_, request_.candidate_folder, Origin::candidate, request_)).job;
    job.flags.insert(job.flags.end(), {"-fopt-info-vec-optimized", "-fopt-info-vec-missed", "-g1"});
    const fs::path whole = scratch_->path() / "remarks.txt";
    const BuildOutcome built = TRY(build(job, scratch_->path() / "cache", whole, stop_));
    if (!built.ok) return {};
    const std::string text = read_file(whole, 64 << 20).value_or(built.output);
    int64_t vectorised = 0, missed = 0;
    std::string first_missed;
    for (size_t at = 0; at < text.size();) {
      const size_t end = std::min(text.find('\n', at), text.size());
      const std::string_view line = std::string_view(text).substr(at, end - at);
      at = end + 1;
      if (line.starts_with('/') || line.find(": ") == std::string_view::npos)
        continue;  // a header of the system
      if (line.find("loop vectorized") != std::string_view::npos) {
        ++vectorised;
        raw_ += std::string(line) + "\n";
      } else if (line.find("couldn't vectorize loop") != std::string_view::npos) {
        ++missed;
        if (first_missed.empty()) first_missed = std::string(line.substr(0, line.find(": ")));
        raw_ += std::string(line) + "\n";
      }
    }
    summary_.figures["loops_vectorised"] = static_cast<double>(vectorised);
    summary_.figures["loops_not_vectorised"] = static_cast<double>(missed);
    summary_.sentences.push_back(
        fmt::format("The compiler vectorised {} loops and left {} alone{}.", vectorised, missed,
                    first_missed.empty() ? "" : ", the first at " + first_missed));
    return {};
  }

  const LoadedTask& task_;
  const EvaluationRequest& request_;
  const Verdict& verdict_;
  std::stop_token stop_;
  const Shape* shape_ = nullptr;
  std::optional<TempFolder> scratch_;
  ProfileSummary summary_;
  std::string raw_;
};

}  // namespace

Result<ProfileSummary> profile_kernel(const LoadedTask& task, const EvaluationRequest& request,
                                      const Verdict& verdict, const fs::path& raw_file,
                                      std::stop_token stop) {
  return Profiler(task, request, verdict, std::move(stop)).run(raw_file);
}

}  // namespace marathon
