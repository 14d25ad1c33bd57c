#include "judge/build.h"

#include <fmt/format.h>

#include <array>

#include "base/file.h"

namespace marathon {

namespace fs = std::filesystem;

namespace {

constexpr int64_t max_compiler_processes = 64;
constexpr int64_t max_object_bytes = 256LL << 20;
constexpr int64_t kept_output_bytes = 32LL << 10;
constexpr int cannot_run = 126, no_program = 127, no_jail = 125;  // of marathon-worker exec

// Narrower than toolchain_jail(): what is installed below /opt or /usr/share may be a task.
constexpr std::array<const char*, 10> compiler_folders = {
    "/usr/bin",       "/usr/lib",       "/usr/lib64",         "/usr/libexec", "/usr/include",
    "/usr/local/bin", "/usr/local/lib", "/usr/local/include", "/bin",         "/lib"};

// marathon-worker under a sanitizer reserves terabytes before it becomes the compiler;
// resident memory is watched in any case.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool limits_addresses = false;
#else
constexpr bool limits_addresses = true;
#endif

// Everything that the loader closes after it has bound the library is closed: what stays writable
// is the candidate's own. A name that nobody defines fails here and not in the worker.
constexpr std::array<const char*, 4> own_flags = {"-Wl,-z,defs", "-Wl,-z,relro", "-Wl,-z,now",
                                                  "-Wl,-z,noexecstack"};

Status write_sources(const BuildJob& job, const fs::path& folder) {
  for (const SourceFile& file : job.files) {
    if (!is_safe_relative(file.path))
      return fail(Fault::invalid, "a source file outside of its folder: " + file.path.string());
    TRY(make_folders((folder / file.path).parent_path()));
    TRY(write_file(folder / file.path, file.content));
  }
  return write_file(folder / "marathon_kernel.h", kernel_header);
}

std::vector<std::string> gcc_words(const BuildJob& job, const fs::path& scratch) {
  std::vector<std::string> words = {"-shared", "-fPIC", "-I."};
  words.insert(words.end(), job.flags.begin(), job.flags.end());
  words.insert(words.end(), job.sources.begin(), job.sources.end());
  words.insert(words.end(), own_flags.begin(), own_flags.end());
  words.insert(words.end(), {"-o", (scratch / "out" / "library.so").string()});
  return words;
}

ProcessSpec compiler_call(const BuildJob& job, const Compiler& compiler,
                          const std::vector<std::string>& words, const fs::path& scratch,
                          double seconds) {
  ProcessSpec spec;
  spec.argv = {compiler.path.string()};
  spec.argv.insert(spec.argv.end(), words.begin(), words.end());
  spec.folder = scratch / "src";
  spec.environment = clean_environment(scratch / "tmp");
  spec.environment.emplace_back("CCACHE_DISABLE=1");
  spec.timeout_s = seconds;
  spec.max_processes = max_compiler_processes;
  spec.max_memory_bytes = job.max_memory_bytes;
  spec.keep_bytes = kept_output_bytes;
  return spec;
}

Jail compiler_jail(const BuildJob& job, const Compiler& compiler, const fs::path& scratch) {
  Jail jail = toolchain_jail();
  jail.read_execute.assign(compiler_folders.begin(), compiler_folders.end());
  jail.read_execute.emplace_back("/lib64");
  if (!compiler.prefix.empty()) jail.read_execute.push_back(compiler.prefix);
  // The candidate's folder and nothing else of ours: an oracle cannot be included or embedded.
  jail.read_only.push_back(scratch / "src");
  jail.read_write.push_back(scratch / "out");
  jail.read_write.push_back(scratch / "tmp");
  jail.allow_fork = jail.allow_exec = true;
  // nvcc's parts reserve more than they use; resident memory is watched in any case.
  if (limits_addresses && job.language == Language::cpp)
    jail.max_memory_bytes = job.max_memory_bytes;
  jail.max_file_bytes = max_object_bytes;
  jail.max_cpu_s = static_cast<int64_t>(job.timeout_s) * 2 + 10;
  return jail;
}

bool is_below(const fs::path& path, const fs::path& folder) {
  std::error_code none;
  const fs::path relative =
      fs::weakly_canonical(path, none).lexically_relative(fs::weakly_canonical(folder, none));
  return !relative.empty() && *relative.begin() != "..";
}

// Landlock grants whole folders. A task inside of one would lay its oracle and its hidden shapes
// open.
Status require_secret(const fs::path& secret, const Jail& jail) {
  if (secret.empty()) return {};
  for (const fs::path& open : jail.read_execute) {
    if (!fs::exists(open) || !is_below(secret, open)) continue;
    return fail(Fault::invalid,
                fmt::format("{} lies below {}, which the compiler must be able to read: copy it to "
                            "another place, for instance into your home folder",
                            secret.string(), open.string()));
  }
  return {};
}

// The scratch folder has another name each time; the output of one source should not.
std::string without_scratch(std::string text, const fs::path& scratch) {
  const std::string name = scratch.string() + "/";
  for (size_t at = text.find(name); at != std::string::npos; at = text.find(name, at))
    text.erase(at, name.size());
  return text;
}

bool says(const std::string& text, std::initializer_list<const char*> marks) {
  return std::any_of(marks.begin(), marks.end(),
                     [&](const char* mark) { return text.find(mark) != std::string::npos; });
}

std::string why_it_failed(const BuildJob& job, const ProcessResult& result) {
  const std::string& text = result.err;
  if (result.timed_out || says(text, {"CPU time limit exceeded"}))
    return fmt::format("the compiler took longer than {:.0f} s", job.timeout_s);
  if (result.too_much_memory ||
      says(text, {"out of memory allocating", "virtual memory exhausted", "std::bad_alloc"}))
    return fmt::format("the compiler used more than {} MB", job.max_memory_bytes >> 20);
  if (result.too_many_processes) return "the compiler started too many processes";
  if (says(text, {"File size limit exceeded", "File too large"}))
    return fmt::format("the object file is larger than {} MB", max_object_bytes >> 20);
  size_t first = std::string::npos;
  // ptxas has blanks before its colon.
  for (const char* mark :
       {"fatal error: ", "error: ", "Error: ", "error   : ", "fatal   : ", "undefined reference"})
    first = std::min(first, text.find(mark));
  if (first != std::string::npos) {
    const size_t begin = text.rfind('\n', first) + 1;  // npos + 1 is 0
    return text.substr(begin, std::min<size_t>(text.find('\n', first) - begin, 400));
  }
  if (result.signal != 0) return fmt::format("the compiler was ended by signal {}", result.signal);
  return text.empty() ? fmt::format("the compiler failed with exit code {}", result.exit_code)
                      : text.substr(0, 400);
}

}  // namespace

Result<std::vector<std::string>> jail_words(const Jail& jail, const fs::path& scratch,
                                            bool unsafe_no_sandbox) {
  const fs::path file = scratch / "jail.json";
  TRY(write_file(file, jail_to_json(jail)));
  std::vector<std::string> words = {TRY(helper_program("marathon-worker")).string(), "exec",
                                    "--jail", file.string()};
  if (unsafe_no_sandbox) words.emplace_back("--unsafe-no-sandbox");
  words.emplace_back("--");
  return words;
}

Result<ProcessResult> run_jailed(ProcessSpec spec, const Jail& jail, const fs::path& scratch,
                                 bool unsafe_no_sandbox, std::stop_token stop) {
  // Or what forks away from its parent would be neither counted nor swept.
  TRY(become_subreaper());
  std::vector<std::string> argv = TRY(jail_words(jail, scratch, unsafe_no_sandbox));
  argv.insert(argv.end(), spec.argv.begin(), spec.argv.end());
  spec.argv = std::move(argv);
  ProcessResult result = TRY(run_process(spec, stop));
  // The prefix tells our own failure from a program that happens to end with the same number.
  const bool ours = result.err.starts_with("marathon-worker: ");
  if (result.exit_code == no_jail && ours)
    return fail(Fault::system, "the sandbox could not be set up: " + result.err);
  return result;
}

Result<Compiler> compiler_of(const BuildJob& job) {
  switch (job.language) {
    case Language::cpp:
      return find_compiler();
    case Language::cuda:
      return find_nvcc();
    case Language::triton:
      return find_python();
  }
  return fail(Fault::invalid, "a language without a compiler");
}

Result<BuildOutcome> run_compiler(const BuildJob& job, const Compiler& compiler,
                                  const std::vector<std::string>& words, const fs::path& scratch,
                                  const fs::path& output_file, double seconds,
                                  std::stop_token stop) {
  ProcessSpec spec = compiler_call(job, compiler, words, scratch, seconds);
  spec.output_file = output_file;
  const Jail jail = compiler_jail(job, compiler, scratch);
  TRY(require_secret(job.secret_folder, jail));
  ProcessResult result =
      TRY(run_jailed(std::move(spec), jail, scratch, job.unsafe_no_sandbox, stop));
  if (result.exit_code == cannot_run || result.exit_code == no_program) {
    return fail(Fault::system, fmt::format("the compiler {} cannot be run in the jail: {}",
                                           compiler.path.string(), result.err.substr(0, 300)));
  }
  BuildOutcome outcome;
  outcome.seconds = result.wall_s;
  result.err = without_scratch(std::move(result.err), scratch);
  outcome.output = result.out + result.err;
  outcome.ok = result.exit_code == 0 && !result.too_much_memory && !result.too_many_processes &&
               !result.timed_out;
  if (!outcome.ok) outcome.reason = why_it_failed(job, result);
  return outcome;
}

Result<BuildOutcome> compile(const BuildJob& job, const fs::path& scratch,
                             const fs::path& whole_output_file, std::stop_token stop) {
  const Compiler compiler = TRY(compiler_of(job));
  for (const char* folder : {"src", "out", "tmp"}) TRY(make_folders(scratch / folder));
  TRY(write_sources(job, scratch / "src"));
  switch (job.language) {
    case Language::cpp:
      break;
    case Language::cuda:
      return compile_cuda(job, compiler, scratch, whole_output_file, stop);
    case Language::triton:
      return compile_python(job, compiler, scratch, whole_output_file, stop);
  }
  BuildOutcome outcome = TRY(run_compiler(job, compiler, gcc_words(job, scratch), scratch,
                                          whole_output_file, job.timeout_s, stop));
  outcome.library = scratch / "out" / "library.so";
  return outcome;
}

Result<BuildOutcome> build(const BuildJob& job, const fs::path& cache_folder,
                           const fs::path& whole_output_file, std::stop_token stop) {
  const Compiler compiler = TRY(compiler_of(job));
  const fs::path entry = cache_folder / "builds" / cache_key(job, compiler);
  if (std::optional<BuildOutcome> cached = from_cache(entry)) {
    if (!whole_output_file.empty()) TRY(write_file(whole_output_file, cached->output));
    return std::move(*cached);
  }
  TRY(make_folders(cache_folder / "builds"));
  const TempFolder scratch = TRY(TempFolder::make("marathon-build"));
  BuildOutcome outcome = TRY(compile(job, scratch.path(), whole_output_file, stop));
  if (!outcome.ok) return outcome;
  const fs::path library = outcome.library;
  return publish(entry, library, std::move(outcome));
}

}  // namespace marathon
