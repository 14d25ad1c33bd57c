#include "judge/build.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <optional>

#include "base/file.h"
#include "base/hash.h"

namespace marathon {

namespace fs = std::filesystem;

namespace {

constexpr int64_t max_compiler_processes = 64;
constexpr int64_t max_object_bytes = 256LL << 20;

// "model name" and the hash of "flags" of the first CPU: what -march=native depends on.
std::string cpu_identity() {
  std::ifstream file("/proc/cpuinfo");
  std::string line, identity;
  while (std::getline(file, line) && !line.empty()) {
    if (line.starts_with("model name") || line.starts_with("flags") || line.starts_with("Features"))
      identity += line;
  }
  return sha256_hex(identity);
}

std::string key_of(const BuildJob& job, const Compiler& compiler) {
  Sha256 hash;
  hash.update_field("marathon build 1");
  hash.update_field(compiler.identity);
  hash.update_field(kernel_header);
  for (const std::string& flag : job.flags) hash.update_field(flag);
  hash.update_field("sources");
  for (const std::string& source : job.sources) hash.update_field(source);
  hash.update_field("files");
  for (const SourceFile& file : job.files) {
    hash.update_field(file.path.generic_string());
    hash.update_field(file.content);
  }
  return hash.finish_hex();
}

// A cache entry is a folder with the library and its hash. One whose content does not fit is built
// anew.
std::optional<BuildOutcome> from_cache(const fs::path& entry) {
  const Result<std::string> hash = read_file(entry / "library.sha256", 1000);
  if (!hash) return std::nullopt;
  const Result<std::string> now = sha256_file(entry / "library.so");
  if (!now || *now != *hash) return std::nullopt;
  BuildOutcome outcome;
  outcome.ok = outcome.cached = true;
  outcome.library = entry / "library.so";
  outcome.library_hash = *hash;
  if (Result<std::string> output = read_file(entry / "build.txt", 1 << 20))
    outcome.output = *output;
  return outcome;
}

Status write_sources(const BuildJob& job, const fs::path& folder) {
  for (const SourceFile& file : job.files) {
    if (!is_safe_relative(file.path))
      return fail(Fault::invalid, "a source file outside of its folder: " + file.path.string());
    TRY(make_folders((folder / file.path).parent_path()));
    TRY(write_file(folder / file.path, file.content));
  }
  return write_file(folder / "marathon_kernel.h", kernel_header);
}

ProcessSpec compiler_call(const BuildJob& job, const Compiler& compiler, const fs::path& scratch) {
  ProcessSpec spec;
  spec.argv = {compiler.path.string(), "-shared", "-fPIC", "-I."};
  spec.argv.insert(spec.argv.end(), job.flags.begin(), job.flags.end());
  spec.argv.insert(spec.argv.end(), job.sources.begin(), job.sources.end());
  spec.argv.insert(spec.argv.end(), {"-o", (scratch / "out" / "library.so").string()});
  spec.folder = scratch / "src";
  spec.environment = clean_environment(scratch / "tmp");
  spec.environment.push_back("CCACHE_DISABLE=1");
  spec.timeout_s = job.timeout_s;
  spec.max_processes = max_compiler_processes;
  spec.max_memory_bytes = job.max_memory_bytes;
  spec.keep_bytes = 32 * 1024;
  return spec;
}

Jail compiler_jail(const BuildJob& job, const fs::path& scratch) {
  Jail jail = toolchain_jail();
  // The candidate's folder and nothing else of ours: an oracle cannot be included or embedded.
  jail.read_only.push_back(scratch / "src");
  jail.read_write.push_back(scratch / "out");
  jail.read_write.push_back(scratch / "tmp");
  jail.allow_fork = jail.allow_exec = true;
  jail.max_memory_bytes = job.max_memory_bytes;
  jail.max_file_bytes = max_object_bytes;
  jail.max_cpu_s = static_cast<int64_t>(job.timeout_s) * 2 + 10;
  return jail;
}

std::string why_it_failed(const BuildJob& job, const ProcessResult& result) {
  if (result.timed_out) return fmt::format("the compiler took longer than {:.0f} s", job.timeout_s);
  if (result.too_much_memory)
    return fmt::format("the compiler used more than {} MB", job.max_memory_bytes >> 20);
  if (result.too_many_processes) return "the compiler started too many processes";
  const std::string& text = result.err;
  for (const char* mark : {"fatal error: ", "error: "}) {
    const size_t at = text.find(mark);
    if (at == std::string::npos) continue;
    const size_t begin = text.rfind('\n', at) + 1;  // npos + 1 is 0
    return text.substr(begin, std::min<size_t>(text.find('\n', at) - begin, 400));
  }
  if (result.signal != 0) return fmt::format("the compiler was ended by signal {}", result.signal);
  return text.empty() ? fmt::format("the compiler failed with exit code {}", result.exit_code)
                      : text.substr(0, 400);
}

// Built beside, synced, renamed: who loses the race for one key takes the winner's.
Result<BuildOutcome> publish(const fs::path& entry, const fs::path& scratch, BuildOutcome outcome) {
  const fs::path beside = entry.string() + fmt::format(".tmp-{}", ::getpid());
  TRY(remove_tree(beside));
  TRY(make_folders(beside));
  const std::string library = TRY(read_file(scratch / "out" / "library.so", max_object_bytes));
  outcome.library_hash = sha256_hex(library);
  TRY(write_file_durable(beside / "library.so", library));
  TRY(write_file_durable(beside / "build.txt", outcome.output));
  TRY(write_file_durable(beside / "library.sha256", outcome.library_hash));
  if (::rename(beside.c_str(), entry.c_str()) != 0) {
    if (from_cache(entry)) {
      TRY(remove_tree(beside));
    } else {
      TRY(remove_tree(entry));  // a damaged entry stood in the way
      if (::rename(beside.c_str(), entry.c_str()) != 0)
        return fail_errno("rename to " + entry.string(), errno);
    }
  }
  ::chmod((entry / "library.so").c_str(), 0755);
  outcome.ok = true;
  outcome.library = entry / "library.so";
  return outcome;
}

}  // namespace

std::string cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown CPU";
}

Result<fs::path> helper_program(const std::string& name) {
  const char* folder = std::getenv("MARATHON_BIN");
  const fs::path path = fs::path(folder ? folder : own_folder()) / name;
  if (::access(path.c_str(), X_OK) == 0) return path;
  return fail(
      Fault::not_found,
      fmt::format("{} is missing beside this program ({}); build all of Marathon with ./build.sh",
                  name, path.string()));
}

Result<Compiler> find_compiler() {
  static const Result<Compiler> found = []() -> Result<Compiler> {
    const char* wanted = std::getenv("CXX");
    const std::string name = wanted && *wanted ? wanted : "g++";
    const std::optional<fs::path> path = find_program(name);
    if (!path)
      return fail(
          Fault::not_found,
          fmt::format("no compiler '{}'; install it (apt-get install g++) or set CXX", name));
    ProcessSpec spec;
    spec.argv = {path->string(), "--version"};
    spec.environment = clean_environment("/tmp");
    const ProcessResult result = TRY(run_process(spec));
    Compiler compiler;
    compiler.path = *path;
    compiler.version = result.out.substr(0, result.out.find('\n'));
    struct stat info {};
    ::stat(path->c_str(), &info);
    compiler.identity = fmt::format("{}|{}|{}|{}|{}", path->string(), compiler.version,
                                    info.st_size, info.st_mtim.tv_sec, cpu_identity());
    return compiler;
  }();
  return found;
}

Result<ProcessResult> run_jailed(ProcessSpec spec, const Jail& jail, const fs::path& scratch,
                                 bool unsafe_no_sandbox, std::stop_token stop) {
  const fs::path file = scratch / "jail.json";
  TRY(write_file(file, jail_to_json(jail)));
  std::vector<std::string> argv = {TRY(helper_program("marathon-worker")).string(), "exec",
                                   "--jail", file.string()};
  if (unsafe_no_sandbox) argv.push_back("--unsafe-no-sandbox");
  argv.push_back("--");
  argv.insert(argv.end(), spec.argv.begin(), spec.argv.end());
  spec.argv = std::move(argv);
  ProcessResult result = TRY(run_process(spec, stop));
  if (result.exit_code == 125)
    return fail(Fault::system, "the sandbox could not be set up: " + result.err);
  return result;
}

Result<BuildOutcome> build(const BuildJob& job, const fs::path& cache_folder,
                           const fs::path& whole_output_file, std::stop_token stop) {
  const Compiler compiler = TRY(find_compiler());
  const fs::path entry = cache_folder / "builds" / key_of(job, compiler);
  if (std::optional<BuildOutcome> cached = from_cache(entry)) return std::move(*cached);
  TRY(make_folders(cache_folder / "builds"));
  const TempFolder scratch = TRY(TempFolder::make("marathon-build"));
  for (const char* folder : {"src", "out", "tmp"}) TRY(make_folders(scratch.path() / folder));
  TRY(write_sources(job, scratch.path() / "src"));
  ProcessSpec spec = compiler_call(job, compiler, scratch.path());
  spec.output_file = whole_output_file;
  const ProcessResult result = TRY(run_jailed(std::move(spec), compiler_jail(job, scratch.path()),
                                              scratch.path(), job.unsafe_no_sandbox, stop));
  BuildOutcome outcome;
  outcome.seconds = result.wall_s;
  outcome.output = result.out + result.err;
  if (result.exit_code != 0 || result.too_much_memory || result.too_many_processes ||
      result.timed_out) {
    outcome.reason = why_it_failed(job, result);
    return outcome;
  }
  return publish(entry, scratch.path(), std::move(outcome));
}

}  // namespace marathon
