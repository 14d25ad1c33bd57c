// What is handed to the compiler: editable files of a folder, the task's frozen files, flags.
#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>

#include "base/file.h"
#include "base/hash.h"
#include "judge/bench_call.h"

namespace marathon {

namespace fs = std::filesystem;

namespace {

constexpr int64_t max_file_bytes = 64LL << 20;
constexpr size_t named_at_most = 3;
constexpr const char* params_module_file = "marathon_params.py";

// Would files at or below this path be editable?
bool is_wanted(const Task& task, const fs::path& relative) {
  const int64_t depth = std::distance(relative.begin(), relative.end());
  return std::any_of(
      task.files.editable.begin(), task.files.editable.end(), [&](const std::string& pattern) {
        fs::path head;
        int64_t parts = 0;
        for (const fs::path& part : fs::path(pattern)) {
          if (parts++ < depth) head /= part;
        }
        return parts >= depth && ::fnmatch(head.c_str(), relative.c_str(), FNM_PATHNAME) == 0;
      });
}

}  // namespace

Result<std::optional<std::string>> special_file(const Task& task, const fs::path& folder) {
  std::error_code code;
  fs::recursive_directory_iterator at(folder, code);
  for (const fs::recursive_directory_iterator end; !code && at != end; at.increment(code)) {
    const fs::file_type type = at->symlink_status(code).type();
    const fs::path relative = at->path().lexically_relative(folder);
    if (type == fs::file_type::regular || type == fs::file_type::directory ||
        !is_wanted(task, relative))
      continue;
    return std::optional<std::string>(
        type == fs::file_type::symlink
            ? fmt::format("'{}' is a symbolic link: put the file itself there", relative.string())
            : fmt::format("'{}' is neither a file nor a folder", relative.string()));
  }
  if (code) return fail_errno("list " + folder.string(), code.value());
  return std::optional<std::string>();
}

namespace {

Result<std::vector<SourceFile>> read_files(const fs::path& folder,
                                           const std::vector<fs::path>& files) {
  std::vector<SourceFile> read;
  read.reserve(files.size());
  for (const fs::path& file : files)
    read.push_back({file, TRY(read_file(folder / file, max_file_bytes))});
  return read;
}

const SourceFile* find_file(const std::vector<SourceFile>& files, const fs::path& path) {
  const auto found = std::find_if(files.begin(), files.end(),
                                  [&](const SourceFile& file) { return file.path == path; });
  return found == files.end() ? nullptr : &*found;
}

// What the task froze wins over a file of the same name.
Result<std::vector<SourceFile>> add_frozen(const LoadedTask& task, std::vector<SourceFile> files) {
  for (const fs::path& frozen : TRY(frozen_files(task))) {
    std::erase_if(files, [&](const SourceFile& file) { return file.path == frozen; });
    files.push_back({frozen, TRY(read_file(task.folder / frozen, max_file_bytes))});
  }
  return files;
}

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), named_at_most); ++i)
    text += (i ? ", " : "") + names[i];
  if (names.size() > named_at_most)
    text += fmt::format(" and {} more", names.size() - named_at_most);
  return text;
}

// The task's own file of this name, wherever it keeps it.
Result<std::optional<std::string>> tasks_own(const LoadedTask& task, const fs::path& file,
                                             const std::vector<fs::path>& frozen) {
  const bool is_frozen = std::find(frozen.begin(), frozen.end(), file) != frozen.end();
  const fs::path own = is_frozen ? task.folder / file : task.folder / task.task.files.start / file;
  if (!fs::is_regular_file(own)) return std::optional<std::string>();
  return std::optional<std::string>(TRY(read_file(own, max_file_bytes)));
}

// Files that lie there in vain. A copy of one of the task's is no news, a changed one is.
Result<std::vector<std::string>> notes_on(const LoadedTask& task, const fs::path& folder,
                                          const std::vector<SourceFile>& editable) {
  const std::vector<fs::path> frozen = TRY(frozen_files(task));
  std::vector<std::string> unused, changed;
  for (const fs::path& file : TRY(list_files(folder))) {
    if (is_hidden(file) || find_file(editable, file) || file == fs::path("marathon_kernel.h"))
      continue;
    const std::optional<std::string> own = TRY(tasks_own(task, file, frozen));
    if (!own)
      unused.push_back(file.string());
    else if (TRY(read_file(folder / file, max_file_bytes)) != *own)
      changed.push_back(file.string());
  }
  std::vector<std::string> notes;
  if (!unused.empty()) notes.push_back("not editable, so not used: " + listed(unused));
  if (!changed.empty())
    notes.push_back("not editable, so the task's own was used: " + listed(changed));
  return notes;
}

Status add_parameters(const Task& task, const SourceFile* params, Origin origin, BuildJob& job) {
  if (task.parameters.empty()) return {};
  if (!params && origin == Origin::baseline) return {};
  if (!params)
    return fail(Fault::invalid,
                "params.toml is missing: it needs one line `NAME = value` for each parameter");
  const Configuration configuration = TRY(parse_params_toml(task, params->content));
  if (!is_valid(task, configuration))
    return fail(Fault::invalid,
                "params.toml: the values break a constraint of the task ([search] constraints)");
  for (std::string& word : build_words(task, configuration)) job.flags.push_back(std::move(word));
  return {};
}

// What is -DNAME=value for a compiler, a module imports.
Status add_params_module(const Task& task, std::vector<SourceFile>& files) {
  const SourceFile* params = find_file(files, params_file);
  if (task.parameters.empty() || !params) return {};
  std::string module = to_params_module(task, TRY(parse_params_toml(task, params->content)));
  std::erase_if(files, [](const SourceFile& f) { return f.path == fs::path(params_module_file); });
  files.push_back({params_module_file, std::move(module)});
  return {};
}

// A baseline may hold its sources under names that no candidate may edit.
Result<std::vector<SourceFile>> baseline_files(const Task& task, const fs::path& folder) {
  std::vector<fs::path> wanted = TRY(editable_files(task, folder));
  for (const std::string& source : task.build.sources) {
    const bool there = std::find(wanted.begin(), wanted.end(), fs::path(source)) != wanted.end();
    if (!there && fs::is_regular_file(folder / source)) wanted.emplace_back(source);
  }
  return read_files(folder, wanted);
}

bool is_python(const std::string& file) { return fs::path(file).extension() == ".py"; }

// A task for a GPU may be solved in CUDA C++ or in Triton; which one is told by the files.
Result<Language> language_of(const Task& task, const std::vector<SourceFile>& files) {
  if (!is_gpu_task(task)) return Language::cpp;
  bool python = false, cuda = false;
  for (const std::string& source : task.build.sources) {
    if (find_file(files, source)) (is_python(source) ? python : cuda) = true;
  }
  if (python && cuda)
    return fail(Fault::invalid,
                "there are sources in CUDA C++ and in Python: leave those of one language");
  return python ? Language::triton : Language::cuda;
}

// The task's sources in that language, all of which must be there.
Result<std::vector<std::string>> sources_in(const Task& task, Language language,
                                            const std::vector<SourceFile>& files) {
  std::vector<std::string> sources;
  for (const std::string& source : task.build.sources) {
    if (is_gpu_task(task) && is_python(source) != (language == Language::triton)) continue;
    if (!find_file(files, source))
      return fail(Fault::invalid, fmt::format("the source '{}' is missing", source));
    sources.push_back(source);
  }
  if (sources.empty()) return fail(Fault::invalid, "there is no source: look at [build] sources");
  return sources;
}

}  // namespace

Result<CandidateFiles> read_candidate(const LoadedTask& task, const fs::path& folder) {
  if (const std::optional<std::string> special = TRY(special_file(task.task, folder)))
    return fail(Fault::invalid, *special);
  CandidateFiles files;
  files.editable = TRY(read_files(folder, TRY(editable_files(task.task, folder))));
  files.notes = TRY(notes_on(task, folder, files.editable));
  return files;
}

Result<Implementation> read_implementation(const LoadedTask& task, const fs::path& folder,
                                           Origin origin, const EvaluationRequest& request) {
  Implementation made;
  std::vector<SourceFile> files;
  switch (origin) {
    case Origin::candidate: {
      CandidateFiles own = TRY(read_candidate(task, folder));
      made.notes = std::move(own.notes);
      made.editable = own.editable;
      files = std::move(own.editable);
      break;
    }
    case Origin::baseline:
      files = TRY(baseline_files(task.task, folder));
      break;
  }
  BuildJob& job = made.job;
  job.language = TRY(language_of(task.task, files));
  if (job.language == Language::cuda) job.architecture = TRY(gpu_architecture(request));
  job.flags = task.task.build.flags;
  TRY(add_parameters(task.task, find_file(files, params_file), origin, job));
  // The compiler never sees params.toml: two candidates that differ in its comments share one
  // build.
  if (job.language == Language::triton) TRY(add_params_module(task.task, files));
  std::erase_if(files, [](const SourceFile& file) { return file.path == fs::path(params_file); });
  job.files = TRY(add_frozen(task, std::move(files)));
  job.sources = TRY(sources_in(task.task, job.language, job.files));
  job.timeout_s = task.task.build.timeout_s;
  job.max_memory_bytes = task.task.build.max_memory_bytes;
  job.unsafe_no_sandbox = request.unsafe_no_sandbox;
  job.secret_folder = task.folder;
  return made;
}

static Result<BuildJob> job_of_oracle(const LoadedTask& task, const std::string& file,
                                      Language language, const std::string& real,
                                      const EvaluationRequest& request) {
  BuildJob job;
  job.files = TRY(add_frozen(task, {{file, TRY(read_file(task.folder / file))}}));
  job.sources = {file};
  job.language = language;
  if (language == Language::cuda) {
    job.architecture = TRY(gpu_architecture(request));
    job.flags = {"-std=c++20", "-O3", "-DMARATHON_REAL=" + real};
    if (real == "float") job.flags.emplace_back("-DMARATHON_EMULATION=1");
  } else {
    job.flags = {"-std=c++20", "-O3", "-march=native", "-Wno-psabi", "-DMARATHON_REAL=" + real};
  }
  job.timeout_s = task.task.build.timeout_s;
  job.max_memory_bytes = task.task.build.max_memory_bytes;
  job.unsafe_no_sandbox = request.unsafe_no_sandbox;
  return job;
}

Result<BuildJob> oracle_job(const LoadedTask& task, const std::string& real,
                            const EvaluationRequest& request) {
  return job_of_oracle(task, task.task.files.oracle,
                       is_gpu_task(task.task) ? Language::cuda : Language::cpp, real, request);
}

Result<BuildJob> cpu_oracle_job(const LoadedTask& task, const EvaluationRequest& request) {
  return job_of_oracle(task, task.task.files.cpu_oracle, Language::cpp, "double", request);
}

// A baseline in Python is run where it lies: it may have more files, and is not compiled here.
static Result<std::optional<BuildOutcome>> python_baseline(const LoadedTask& task) {
  if (!is_gpu_task(task.task)) return std::optional<BuildOutcome>();
  std::vector<std::string> names = {std::string(python_baseline_file)};
  for (const std::string& source : task.task.build.sources) names.push_back(source);
  for (const std::string& source : names) {
    const fs::path module = task.folder / task.task.files.baseline / source;
    if (!is_python(source) || !fs::exists(module)) continue;
    BuildOutcome outcome;
    outcome.ok = outcome.cached = true;
    outcome.library = module;
    outcome.library_hash = TRY(sha256_file(module));
    return std::optional<BuildOutcome>(std::move(outcome));
  }
  return std::optional<BuildOutcome>();
}

Status build_trusted(const LoadedTask& task, const EvaluationRequest& request, Libraries& libraries,
                     std::stop_token stop) {
  struct Part {
    const char* name;
    BuildJob job;
    BuildOutcome* outcome;
  };
  const fs::path baseline = task.folder / task.task.files.baseline;
  std::vector<Part> parts = {
      {"oracle", TRY(oracle_job(task, "double", request)), &libraries.oracle},
      {"oracle with real = float", TRY(oracle_job(task, "float", request)), &libraries.emulation},
  };
  if (std::optional<BuildOutcome> python = TRY(python_baseline(task))) {
    libraries.baseline = std::move(*python);
  } else {
    parts.push_back({"baseline",
                     TRY(read_implementation(task, baseline, Origin::baseline, request)).job,
                     &libraries.baseline});
  }
  for (const Part& part : parts) {
    *part.outcome = TRY(build(part.job, request.cache_folder, {}, stop));
    if (!part.outcome->ok)
      return fail(Fault::invalid, fmt::format("the task's {} does not build: {}; repair the task",
                                              part.name, part.outcome->reason));
  }
  return {};
}

}  // namespace marathon
