// A task's folder: task.toml, and the files that it names.
#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>

#include "base/file.h"
#include "base/hash.h"
#include "judge/judge.h"

namespace marathon {

namespace fs = std::filesystem;

namespace {

// Shell patterns inside one folder: "*.cc" matches a.cc, not b/a.cc.
bool matches(const fs::path& file, const std::string& pattern) {
  return ::fnmatch(pattern.c_str(), file.c_str(), FNM_PATHNAME) == 0;
}

// Path, then content, of every file but those whose name starts with a dot.
Result<std::string> folder_hash(const fs::path& folder) {
  Sha256 hash;
  for (const fs::path& relative : TRY(list_files(folder))) {
    if (is_hidden(relative)) continue;
    hash.update_field(relative.generic_string());
    hash.update_field(TRY(sha256_file(folder / relative)));
  }
  return hash.finish_hex();
}

class FileCheck {
 public:
  FileCheck(const Task& task, const fs::path& folder, std::vector<Diagnostic>& problems)
      : task_(task), folder_(folder), problems_(problems) {}

  void run() {
    want_folder(task_.files.start, "the starting solution ([files] start)");
    for (const std::string& pattern : task_.files.editable) want_match(pattern);
    for (const std::string& pattern : task_.files.frozen) want_frozen(pattern);
    if (task_.kind == TaskKind::command) return check_graders();
    want_file(task_.files.oracle, "the oracle ([files] oracle)");
    if (!task_.files.cpu_oracle.empty())
      want_file(task_.files.cpu_oracle, "the oracle for the CPU ([files] cpu_oracle)");
    want_folder(task_.files.baseline, "the baseline ([files] baseline)");
    if (!has(task_.files.baseline, std::string(python_baseline_file)) || !is_gpu_task(task_))
      want_sources(task_.files.baseline, "a source of the baseline ([build] sources)");
    want_sources(task_.files.start, "a source of the starting solution ([build] sources)");
    if (!task_.parameters.empty()) check_params();
  }

 private:
  void say(std::string message, bool warning = false) {
    problems_.push_back({(folder_ / "task.toml").string(), 0, 0, warning, std::move(message)});
  }
  // A program of the task that grades must be one that no candidate can change.
  void check_graders() {
    const std::pair<const char*, const std::vector<std::string>&> steps[] = {
        {"check", task_.command.check}, {"measure", task_.command.measure}};
    for (const auto& [name, argv] : steps) {
      for (const std::string& word : argv) {
        const fs::path file = fs::path(word).lexically_normal();
        const auto is_in = [&](const std::vector<std::string>& patterns) {
          return std::any_of(patterns.begin(), patterns.end(),
                             [&](const std::string& pattern) { return matches(file, pattern); });
        };
        if (is_in(task_.files.frozen)) continue;
        if (is_in(task_.files.editable)) {
          say(
              fmt::format("[command] {}: '{}' grades and is editable: a candidate would grade "
                          "itself; name it under [files] frozen",
                          name, word));
        } else if (fs::is_regular_file(folder_ / task_.files.start / file)) {
          say(fmt::format("[command] {}: '{}' grades and is not frozen: what runs in the workspace "
                          "could change it; name it under [files] frozen",
                          name, word),
              true);
        }
      }
    }
  }
  void want_file(const fs::path& file, const char* what) {
    if (!fs::is_regular_file(folder_ / file))
      say(fmt::format("{}: there is no file '{}' in the task's folder", what, file.string()));
  }
  bool has(const std::string& folder, const std::string& file) const {
    return fs::is_regular_file(folder_ / folder / file);
  }
  // All of them, or for a GPU those of one of the task's languages.
  void want_sources(const std::string& folder, const char* what) {
    std::vector<std::string> wanted = task_.build.sources;
    for (const Language language : task_.languages) {
      std::vector<std::string> sources = sources_in(task_, language);
      const bool any = std::any_of(sources.begin(), sources.end(),
                                   [&](const std::string& source) { return has(folder, source); });
      if (any) wanted = std::move(sources);
    }
    for (const std::string& source : wanted) want_file(fs::path(folder) / source, what);
  }
  void want_folder(const fs::path& path, const char* what) {
    if (!fs::is_directory(folder_ / path))
      say(fmt::format("{}: there is no folder '{}' in the task's folder", what, path.string()));
  }
  void want_match(const std::string& pattern) {
    const Result<std::vector<fs::path>> files = list_files(folder_ / task_.files.start);
    if (!files) return;
    const bool found = std::any_of(files->begin(), files->end(),
                                   [&](const fs::path& file) { return matches(file, pattern); });
    // A pattern may stand for files that a candidate adds.
    const bool is_pattern = pattern.find_first_of("*?[") != std::string::npos;
    // The start is written in one of several languages.
    const std::vector<std::string>& sources = task_.build.sources;
    if (task_.languages.size() > 1 &&
        std::find(sources.begin(), sources.end(), pattern) != sources.end())
      return;
    if (!found)
      say(fmt::format("[files] editable: nothing in '{}' matches '{}'", task_.files.start, pattern),
          is_pattern);
  }
  void want_frozen(const std::string& pattern) {
    const Result<std::vector<fs::path>> files = list_files(folder_);
    if (files && std::any_of(files->begin(), files->end(),
                             [&](const fs::path& file) { return matches(file, pattern); }))
      return;
    say(fmt::format("[files] frozen: nothing in the task's folder matches '{}'", pattern));
  }
  void check_params() {
    const fs::path file = folder_ / task_.files.start / params_file;
    const Result<std::string> text = read_file(file, 1 << 20);
    if (!text) return say("the task has parameters, so the starting solution needs a params.toml");
    const Result<Configuration> configuration = parse_params_toml(task_, *text);
    if (!configuration) say(file.string() + ": " + configuration.error().what);
  }

  const Task& task_;
  const fs::path& folder_;
  std::vector<Diagnostic>& problems_;
};

}  // namespace

Result<LoadedTask> load_task(const fs::path& folder, std::vector<Diagnostic>* diagnostics) {
  const fs::path file = folder / "task.toml";
  Result<std::string> text = read_file(file, 4 << 20);
  if (!text && text.error().fault == Fault::not_found) {
    return fail(
        Fault::not_found,
        fmt::format("no task there: {} does not exist; name the folder that holds task.toml",
                    file.string()));
  }
  ParsedTask parsed = parse_task(TRY(std::move(text)), file.string());
  if (parsed.ok()) FileCheck(parsed.task, folder, parsed.diagnostics).run();
  if (diagnostics) *diagnostics = parsed.diagnostics;
  std::string errors;
  for (const Diagnostic& diagnostic : parsed.diagnostics) {
    if (!diagnostic.warning) errors += (errors.empty() ? "" : "\n") + to_string(diagnostic);
  }
  if (!errors.empty()) return fail(Fault::invalid, errors);
  return LoadedTask{std::move(parsed.task), fs::absolute(folder).lexically_normal(),
                    TRY(folder_hash(folder))};
}

bool is_editable(const Task& task, const fs::path& file) {
  return std::any_of(task.files.editable.begin(), task.files.editable.end(),
                     [&](const std::string& pattern) { return matches(file, pattern); });
}

Result<std::vector<fs::path>> editable_files(const Task& task, const fs::path& folder) {
  std::vector<fs::path> files = TRY(list_files(folder));
  std::erase_if(files, [&](const fs::path& file) { return !is_editable(task, file); });
  return files;
}

Result<std::vector<fs::path>> frozen_files(const LoadedTask& task) {
  std::vector<fs::path> files = TRY(list_files(task.folder));
  std::erase_if(files, [&](const fs::path& file) {
    return std::none_of(task.task.files.frozen.begin(), task.task.files.frozen.end(),
                        [&](const std::string& pattern) { return matches(file, pattern); });
  });
  return files;
}

Result<std::string> candidate_hash(const Task& task, const fs::path& folder) {
  std::map<std::string, std::string> contents;
  for (const fs::path& file : TRY(editable_files(task, folder)))
    contents[file.generic_string()] = TRY(read_file(folder / file));
  return hash_of_files(contents);
}

}  // namespace marathon
