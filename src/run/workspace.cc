#include "run/workspace.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/file.h"
#include "base/process.h"

namespace marathon {

namespace fs = std::filesystem;

namespace {

// 2020-01-01: attempt n is n seconds later, so that commits do not depend on when they were made.
constexpr int64_t first_commit_time = 1577836800;
constexpr double git_timeout_s = 60;

// The person's own settings and hooks are kept out as well: they would change commits or stop them.
// unpackLimit: a candidate is one small pack. Unpacked it would be one more program start and five
// files: 14 ms a commit instead of 6 ms.
constexpr const char* git_settings[] = {"core.fsync=none", "gc.auto=0", "core.hooksPath=/dev/null",
                                        "safe.directory=*", "fastimport.unpackLimit=1"};
constexpr int64_t commits_between_repacks = 500;  // a lookup goes through every pack

// A file in memory with `text` in it, to be read from its start.
Result<Fd> in_memory(std::string_view text) {
  Fd fd(::memfd_create("marathon-git", MFD_CLOEXEC));
  if (!fd) return fail_errno("memfd_create", errno);
  for (size_t done = 0; done < text.size();) {
    const ssize_t wrote = ::write(fd.get(), text.data() + done, text.size() - done);
    if (wrote < 0 && errno != EINTR) return fail_errno("write to memory", errno);
    done += static_cast<size_t>(std::max<ssize_t>(wrote, 0));
  }
  if (::lseek(fd.get(), 0, SEEK_SET) < 0) return fail_errno("seek in memory", errno);
  return fd;
}

Result<std::string> git(const fs::path& folder, std::vector<std::string> arguments,
                        std::string_view input = {}) {
  const Fd standard_input = TRY(in_memory(input));
  ProcessSpec spec;
  spec.argv = {"git", "-C", folder.string()};
  for (const char* setting : git_settings) {
    spec.argv.push_back("-c");
    spec.argv.push_back(setting);
  }
  spec.argv.insert(spec.argv.end(), arguments.begin(), arguments.end());
  spec.environment = clean_environment(folder);
  spec.environment.push_back("GIT_CONFIG_NOSYSTEM=1");
  spec.environment.push_back("GIT_CONFIG_GLOBAL=/dev/null");
  spec.timeout_s = git_timeout_s;
  spec.keep_bytes = 4 << 20;
  spec.pass_fds = {{standard_input.get(), 0}};
  const ProcessResult result = TRY(run_process(spec));
  if (result.exit_code == 0) return result.out;
  const bool full = result.err.find("No space left") != std::string::npos ||
                    result.err.find("quota exceeded") != std::string::npos;
  return fail(full ? Fault::no_space : Fault::system,
              fmt::format("git {} failed in {}: {}", arguments.front(), folder.string(),
                          result.err.empty() ? "it said nothing" : result.err));
}

std::string data_block(std::string_view text) {
  return fmt::format("data {}\n{}\n", text.size(), text);
}

// fast-import's own quoting: any path goes through it.
std::string quoted(const std::string& path) {
  std::string text = "\"";
  for (const char c : path) {
    if (c == '"' || c == '\\') text += '\\';
    text += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return text + "\"";
}

bool is_script(std::string_view content) { return content.starts_with("#!"); }

Status write_one(const fs::path& file, std::string_view content) {
  TRY(make_folders(file.parent_path()));
  TRY(write_file(file, content));
  if (!is_script(content)) return {};
  std::error_code code;
  fs::permissions(file, fs::perms(0755), code);
  if (code) return fail_errno("make executable " + file.string(), code.value());
  return {};
}

Status require_safe(const std::string& path) {
  if (is_safe_relative(path)) return {};
  return fail(Fault::invalid, "'" + path + "' lies outside of the workspace");
}

// One program start a candidate: add, write-tree, commit and update-ref would be four.
Result<std::string> import_stream(const CommitParts& parts, const Artifacts& artifacts) {
  std::string stream, tree;
  int mark = 0;
  for (const auto& [path, hash] : parts.files) {
    const std::string content = TRY(artifacts.get(hash));
    stream += fmt::format("blob\nmark :{}\n{}", ++mark, data_block(content));
    tree +=
        fmt::format("M {} :{} {}\n", is_script(content) ? "100755" : "100644", mark, quoted(path));
  }
  stream += fmt::format(
      "commit refs/candidates/{}\nmark :{}\ncommitter Marathon <marathon@localhost> {} +0000\n",
      parts.candidate, ++mark, first_commit_time + parts.number);
  stream += data_block(parts.message);
  if (!parts.parent_commit.empty()) stream += "from " + parts.parent_commit + "\n";
  return stream + "deleteall\n" + tree + fmt::format("\nget-mark :{}\ndone\n", mark);
}

}  // namespace

Status write_files(const FileHashes& files, const Artifacts& artifacts, const fs::path& folder) {
  TRY(remove_tree(folder));
  TRY(make_folders(folder));
  for (const auto& [path, hash] : files) {
    TRY(require_safe(path));
    TRY(write_one(folder / path, TRY(artifacts.get(hash))));
  }
  return {};
}

Status Workspace::create() const {
  TRY(make_folders(folder_));
  TRY(git(folder_, {"init", "-q", "-b", "main", "--template="}));
  return {};
}

Status Workspace::restore(const FileHashes& files, const Artifacts& artifacts) const {
  TRY(make_folders(folder_));
  for (const fs::path& file : TRY(list_files(folder_))) {
    if (*file.begin() == ".git" || files.contains(file.generic_string())) continue;
    TRY(remove_tree(folder_ / file));
  }
  TRY(change(files, artifacts));
  if (!fs::exists(folder_ / ".git" / "HEAD")) TRY(create());
  return {};
}

Status Workspace::change(const FileHashes& written, const Artifacts& artifacts) const {
  for (const auto& [path, hash] : written) {
    TRY(require_safe(path));
    if (hash.empty()) {
      TRY(remove_tree(folder_ / path));
    } else {
      TRY(write_one(folder_ / path, TRY(artifacts.get(hash))));
    }
  }
  return {};
}

Result<std::string> Workspace::commit(const CommitParts& parts, const Artifacts& artifacts) const {
  const std::string stream = TRY(import_stream(parts, artifacts));
  std::string id = TRY(git(folder_, {"fast-import", "--quiet", "--force", "--done"}, stream));
  while (!id.empty() && id.back() == '\n') id.pop_back();
  // Only speed depends on it; the next time comes.
  if (parts.number % commits_between_repacks == 0) (void)git(folder_, {"repack", "-a", "-d", "-q"});
  if (id.size() == 40) return id;
  return fail(Fault::system, "git fast-import made no commit: " + id);
}

Result<std::vector<std::string>> Workspace::missing(const std::vector<std::string>& commits) const {
  std::string asked;
  for (const std::string& commit : commits) asked += commit + "\n";
  const std::string answer = TRY(git(folder_, {"cat-file", "--batch-check=%(objecttype)"}, asked));
  std::vector<std::string> gone;
  for (const std::string& commit : commits) {
    if (answer.find(commit + " missing") != std::string::npos) gone.push_back(commit);
  }
  return gone;
}

Status Workspace::set_best(const std::string& commit) const {
  TRY(git(folder_, {"update-ref", "refs/heads/main", commit}));
  return {};
}

}  // namespace marathon
