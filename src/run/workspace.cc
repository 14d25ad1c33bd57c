#include "run/workspace.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <cerrno>

#include "base/file.h"
#include "base/process.h"

namespace marathon {

namespace fs = std::filesystem;

namespace {

// 2020-01-01: attempt n is n seconds later, so that commits do not depend on when they were made.
constexpr int64_t first_commit_time = 1577836800;

Result<ProcessResult> git(const fs::path& folder, std::vector<std::string> arguments,
                          int standard_input = -1) {
  ProcessSpec spec;
  spec.argv = {"git",       "-C", folder.string(),           "-c", "core.fsync=none", "-c",
               "gc.auto=0", "-c", "core.hooksPath=/dev/null"};
  spec.argv.insert(spec.argv.end(), arguments.begin(), arguments.end());
  spec.environment = clean_environment(folder);
  spec.environment.push_back("GIT_CONFIG_NOSYSTEM=1");
  spec.environment.push_back("GIT_CONFIG_GLOBAL=/dev/null");
  spec.timeout_s = 60;
  if (standard_input >= 0) spec.pass_fds = {{standard_input, 0}};
  ProcessResult result = TRY(run_process(spec));
  if (result.exit_code == 0) return result;
  return fail(Fault::system, fmt::format("git {} failed in {}: {}", arguments.front(),
                                         folder.string(), result.err));
}

std::string data_block(std::string_view text) {
  return fmt::format("data {}\n{}\n", text.size(), text);
}

}  // namespace

Status write_files(const FileHashes& files, const Artifacts& artifacts, const fs::path& folder) {
  TRY(remove_tree(folder));
  TRY(make_folders(folder));
  for (const auto& [path, hash] : files) {
    if (!is_safe_relative(path))
      return fail(Fault::corrupt, "a candidate's file lies outside of its folder: " + path);
    TRY(make_folders((folder / path).parent_path()));
    TRY(write_file(folder / path, TRY(artifacts.get(hash))));
  }
  return {};
}

Status Workspace::create() const {
  TRY(make_folders(folder_));
  TRY(git(folder_, {"init", "-q", "-b", "main"}));
  return {};
}

Status Workspace::restore(const FileHashes& files, const Artifacts& artifacts) const {
  TRY(make_folders(folder_));
  for (const fs::path& file : TRY(list_files(folder_))) {
    if (*file.begin() == ".git" || files.contains(file.generic_string())) continue;
    TRY(remove_tree(folder_ / file));
  }
  for (const auto& [path, hash] : files) TRY(write(path, TRY(artifacts.get(hash))));
  if (!fs::exists(folder_ / ".git" / "HEAD")) TRY(create());
  return {};
}

Status Workspace::write(const std::string& path, std::string_view content) const {
  if (!is_safe_relative(path))
    return fail(Fault::invalid, "'" + path + "' lies outside of the workspace");
  TRY(make_folders((folder_ / path).parent_path()));
  return write_file(folder_ / path, content);
}

Result<std::string> Workspace::commit(const FileHashes& files, const Artifacts& artifacts,
                                      const std::string& candidate,
                                      const std::string& parent_commit, int64_t number,
                                      const std::string& message) const {
  // One program start a candidate: add, write-tree, commit and update-ref would be four.
  std::string stream, tree;
  int mark = 0;
  for (const auto& [path, hash] : files) {
    stream += fmt::format("blob\nmark :{}\n{}", ++mark, data_block(TRY(artifacts.get(hash))));
    tree += fmt::format("M 100644 :{} {}\n", mark, path);
  }
  stream += fmt::format(
      "commit refs/candidates/{}\nmark :{}\ncommitter Marathon <marathon@localhost> {} +0000\n",
      candidate, ++mark, first_commit_time + number);
  stream += data_block(message);
  if (!parent_commit.empty()) stream += "from " + parent_commit + "\n";
  stream += "deleteall\n" + tree + "done\n";
  const TempFolder scratch = TRY(TempFolder::make("marathon-commit"));
  TRY(write_file(scratch.path() / "stream", stream));
  const Fd input(::open((scratch.path() / "stream").c_str(), O_RDONLY | O_CLOEXEC));
  if (!input) return fail_errno("open the commit's stream", errno);
  const fs::path marks = scratch.path() / "marks";
  TRY(git(folder_,
          {"fast-import", "--quiet", "--force", "--done", "--export-marks=" + marks.string()},
          input.get()));
  const std::string text = TRY(read_file(marks));
  const std::string wanted = fmt::format(":{} ", mark);
  const size_t at = text.find(wanted);
  if (at == std::string::npos) return fail(Fault::system, "git fast-import made no commit");
  return text.substr(at + wanted.size(), 40);
}

Status Workspace::set_best(const std::string& commit) const {
  TRY(git(folder_, {"update-ref", "refs/heads/main", commit}));
  return {};
}

}  // namespace marathon
