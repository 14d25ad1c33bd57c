// What bounds a kernel: counters where the machine has them (many virtual machines have none), else
// instruction counts by callgrind, and what the compiler says of its loops and its stack.
//
// The candidate's code runs in the jail here as well: a candidate could tell that it is profiled
// and do then what it cannot do elsewhere.
#include <fmt/format.h>

#include <algorithm>

#include "base/file.h"
#include "judge/pipeline.h"
#include "judge/profile_task.h"

namespace marathon {

namespace fs = std::filesystem;

namespace {

constexpr double profile_limit_s = 60;
constexpr int64_t callgrind_calls = 2, few_calls = 5, many_calls = 25;
constexpr int64_t max_raw_bytes = 1 << 20, max_output_bytes = 64 << 20;
constexpr size_t hot_lines = 3, max_line_text = 60;

// valgrind 3.19 knows no AVX-512; -mno-avx512f switches off all that build on it.
const std::vector<std::string> flags_for_valgrind = {"-mno-avx512f", "-mno-avxvnni",
                                                     "-mno-avx512fp16"};

bool has_counters() {
  static const bool works = [] {
    if (!find_program("perf")) return false;
    ProcessSpec spec;
    spec.argv = {"perf", "stat", "-x,", "-e", "instructions:u", "true"};
    spec.environment = clean_environment("/tmp");
    spec.timeout_s = 10;
    const Result<ProcessResult> result = run_process(spec);
    return result && result->exit_code == 0 && read_perf_stat(result->err)["instructions"] > 0;
  }();
  return works;
}

class Profiler {
 public:
  Profiler(const LoadedTask& task, const EvaluationRequest& request, std::stop_token stop)
      : task_(task), request_(request), stop_(std::move(stop)) {}

  Result<ProfileSummary> run(const Verdict& verdict, const fs::path& raw_file) {
    shape_ = shape_to_profile(task_.task);
    if (!shape_) return fail(Fault::invalid, "the task has no listed shape");
    scratch_.emplace(TRY(TempFolder::make("marathon-profile")));
    facts_ = known_facts(task_.task, *shape_, verdict);
    const Implementation read =
        TRY(read_implementation(task_, request_.candidate_folder, Origin::candidate, request_));
    files_ = read.job.files;
    std::string source = "compiler";
    if (TRY(count_with_perf(read.job)))
      source = "perf";
    else if (TRY(count_with_callgrind(read.job)))
      source = "callgrind";
    TRY(ask_compiler(read.job));
    if (!raw_file.empty()) TRY(write_file(raw_file, raw_));
    ProfileSummary summary{source, figures_of(facts_), sentences_of(facts_)};
    summary.sentences.insert(summary.sentences.end(), notes_.begin(), notes_.end());
    return summary;
  }

 private:
  Jail jail_for(const fs::path& library, bool with_tool) const {
    Jail jail = toolchain_jail();
    jail.read_only.push_back(task_.folder / "task.toml");
    jail.read_execute.push_back(library);
    if (const Result<fs::path> worker = helper_program("marathon-worker"))
      jail.read_execute.push_back(*worker);
    jail.allow_exec = true;
    jail.max_file_bytes = max_output_bytes;
    if (!with_tool) return jail;
    // valgrind reads its own maps and writes its report.
    jail.read_only.emplace_back("/proc/self");
    jail.read_only.emplace_back("/etc/passwd");
    jail.read_write.push_back(scratch_->path() / "out");
    jail.max_open_files = 1024;
    return jail;
  }

  Result<std::vector<std::string>> worker_words(const fs::path& library, int64_t calls) const {
    return std::vector<std::string>{TRY(helper_program("marathon-worker")).string(),
                                    "profile",
                                    "--lib",
                                    library.string(),
                                    "--task-folder",
                                    task_.folder.string(),
                                    "--shape",
                                    shape_->name,
                                    "--calls",
                                    std::to_string(calls)};
  }

  // `outside` stands before the jail, `inside` in it.
  Result<ProcessResult> run_tool(const std::vector<std::string>& outside,
                                 const std::vector<std::string>& inside, const fs::path& library,
                                 int64_t calls) {
    TRY(make_folders(scratch_->path() / "out"));
    ProcessSpec spec;
    spec.argv = outside;
    for (const std::vector<std::string>& words :
         {TRY(jail_words(jail_for(library, !inside.empty()), scratch_->path(),
                         request_.unsafe_no_sandbox)),
          inside, TRY(worker_words(library, calls))})
      spec.argv.insert(spec.argv.end(), words.begin(), words.end());
    spec.folder = scratch_->path() / "out";
    spec.environment = clean_environment(scratch_->path() / "out");
    spec.timeout_s = profile_limit_s;
    spec.keep_bytes = max_raw_bytes;
    const ProcessResult result = TRY(run_process(spec, stop_));
    raw_ += result.err;
    return result;
  }

  Result<BuildOutcome> library(BuildJob job, const std::vector<std::string>& extra) {
    job.flags.emplace_back("-g1");
    job.flags.insert(job.flags.end(), extra.begin(), extra.end());
    return build(job, request_.cache_folder, {}, stop_);
  }

  Result<bool> count_with_perf(const BuildJob& job) {
    if (!has_counters()) return false;
    const BuildOutcome built = TRY(library(job, {}));
    if (!built.ok) return false;
    std::map<std::string, double> few = TRY(perf_counts(built.library, few_calls)),
                                  many = TRY(perf_counts(built.library, many_calls));
    if (few["instructions"] <= 0 || many["instructions"] <= few["instructions"]) return false;
    // What start and inputs cost is in both.
    const auto a_call = [&](const char* name) {
      return std::max(0.0, (many[name] - few[name]) / (many_calls - few_calls));
    };
    facts_.counted_by = "perf";
    facts_.instructions = a_call("instructions");
    facts_.cycles = a_call("cycles");
    facts_.cache_misses = a_call("cache-misses");
    facts_.branch_misses = a_call("branch-misses");
    return true;
  }

  Result<std::map<std::string, double>> perf_counts(const fs::path& library, int64_t calls) {
    const ProcessResult result = TRY(run_tool(
        {"perf", "stat", "-x,", "-e", "instructions:u,cycles:u,cache-misses:u,branch-misses:u"}, {},
        library, calls));
    if (result.exit_code != 0) return std::map<std::string, double>();
    return read_perf_stat(result.err);
  }

  Result<bool> count_with_callgrind(const BuildJob& job) {
    if (!find_program("valgrind")) {
      notes_.emplace_back(
          "No counters on this machine and no valgrind: install it (apt-get install valgrind) for "
          "instruction counts.");
      return false;
    }
    const BuildOutcome built = TRY(library(job, flags_for_valgrind));
    if (!built.ok) {
      notes_.push_back(
          "No instruction count: it does not build without AVX-512, which valgrind "
          "does not know.");
      return false;
    }
    const fs::path out = scratch_->path() / "out" / "callgrind.out";
    const ProcessResult result =
        TRY(run_tool({},
                     {"valgrind", "--tool=callgrind", "--toggle-collect=marathon_run",
                      "--cache-sim=yes", "--callgrind-out-file=" + out.string()},
                     built.library, callgrind_calls));
    if (result.exit_code != 0) {
      notes_.push_back(why_no_callgrind(result));
      return false;
    }
    const Result<std::string> text = read_file(out, max_output_bytes);
    if (text) take_callgrind(read_callgrind(*text));
    return facts_.instructions > 0;
  }

  static std::string why_no_callgrind(const ProcessResult& result) {
    if (result.timed_out)
      return fmt::format("No instruction count: valgrind takes longer than {:g} s.",
                         profile_limit_s);
    const bool unknown = result.signal == 4 || result.exit_code == 128 + 4 ||
                         result.err.find("nrecognised instruction") != std::string::npos;
    return unknown ? "No instruction count: valgrind does not know an instruction of this build."
                   : "No instruction count: valgrind failed (see the raw profile).";
  }

  void take_callgrind(const CallgrindFacts& found) {
    const double calls = static_cast<double>(callgrind_calls);
    facts_.counted_by = "callgrind";
    facts_.instructions = found.instructions / calls;
    // The rate, not the count: valgrind takes one vector access for several.
    if (found.reads + found.writes > 0)
      facts_.l1_miss_rate = (found.read_misses + found.write_misses) / (found.reads + found.writes);
    raw_ += "\n-- instructions by line\n";
    for (const HotLine& line : found.lines) {
      const SourceFile* source = source_of(line.file);
      const double share = line.instructions / std::max(1.0, found.instructions);
      if (!source || share < 0.02) continue;
      const std::string text = fmt::format("{}:{} ({:.0f} %): {}", source->path.string(), line.line,
                                           100 * share, text_of(*source, line.line));
      raw_ += text + "\n";
      if (facts_.hot_lines.size() < hot_lines) facts_.hot_lines.push_back(text);
    }
  }

  // The compiler ran in a scratch folder: names of files end with ours.
  const SourceFile* source_of(const std::string& file) const {
    const auto found = std::find_if(files_.begin(), files_.end(), [&](const SourceFile& own) {
      const std::string name = own.path.generic_string();
      return file == name || file.ends_with("/" + name);
    });
    return found == files_.end() ? nullptr : &*found;
  }

  static std::string text_of(const SourceFile& file, int64_t line) {
    std::string_view rest = file.content;
    for (int64_t i = 1; i < line && !rest.empty(); ++i)
      rest.remove_prefix(std::min(rest.size(), std::min(rest.find('\n'), rest.size() - 1) + 1));
    std::string_view text = rest.substr(0, rest.find('\n'));
    text.remove_prefix(std::min(text.size(), text.find_first_not_of(" \t")));
    return std::string(text.substr(0, max_line_text)) + (text.size() > max_line_text ? "…" : "");
  }

  // g++'s remarks on the candidate's own files, and the frame of its largest function.
  Status ask_compiler(BuildJob job) {
    job.flags.insert(job.flags.end(),
                     {"-fopt-info-vec-optimized", "-fopt-info-vec-missed", "-fstack-usage"});
    const fs::path scratch = scratch_->path() / "compile", whole = scratch_->path() / "remarks.txt";
    TRY(make_folders(scratch));
    const BuildOutcome built = TRY(compile(job, scratch, whole, stop_));
    if (!built.ok) return {};
    facts_.remarks = read_vector_remarks(read_file(whole, max_output_bytes).value_or(built.output));
    raw_ += "\n-- the compiler's remarks on loops\n";
    for (const std::string& line : facts_.remarks.lines) raw_ += line + "\n";
    for (const fs::path& file : list_files(scratch / "out").value_or(std::vector<fs::path>())) {
      if (file.extension() != ".su") continue;
      const Frame frame = largest_frame(
          read_file(scratch / "out" / file, max_output_bytes).value_or(std::string()));
      if (frame.bytes > facts_.frame.bytes) facts_.frame = frame;
    }
    return count_spills_of(built.library);
  }

  Status count_spills_of(const fs::path& library) {
    if (!find_program("objdump")) return {};
    ProcessSpec spec;
    spec.argv = {"objdump", "-d", "--no-show-raw-insn", "-j", ".text", library.string()};
    spec.environment = clean_environment(scratch_->path());
    spec.output_file = scratch_->path() / "listing";
    spec.output_file_max = max_output_bytes;
    Jail jail = toolchain_jail();
    jail.read_only.push_back(library);
    jail.allow_exec = true;
    jail.max_file_bytes = 1;
    const ProcessResult result =
        TRY(run_jailed(std::move(spec), jail, scratch_->path(), request_.unsafe_no_sandbox, stop_));
    if (result.exit_code != 0) return {};
    facts_.spills = count_spills(
        read_file(scratch_->path() / "listing", max_output_bytes).value_or(std::string()));
    return {};
  }

  const LoadedTask& task_;
  const EvaluationRequest& request_;
  std::stop_token stop_;
  const Shape* shape_ = nullptr;
  std::optional<TempFolder> scratch_;
  std::vector<SourceFile> files_;
  ProfileFacts facts_;
  std::vector<std::string> notes_;
  std::string raw_;
};

}  // namespace

Result<ProfileSummary> profile_kernel(const LoadedTask& task, const EvaluationRequest& request,
                                      const Verdict& verdict, const fs::path& raw_file,
                                      std::stop_token stop) {
  return Profiler(task, request, std::move(stop)).run(verdict, raw_file);
}

}  // namespace marathon
