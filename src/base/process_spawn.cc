#include "base/process_spawn.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <string_view>

namespace marathon {

namespace fs = std::filesystem;

Result<Pipe> Pipe::make() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return fail_errno("pipe", errno);
  Pipe pipe{Fd(ends[0]), Fd(ends[1])};
  ::fcntl(pipe.read.get(), F_SETFL, O_NONBLOCK);
  return pipe;
}

SpawnPlan::SpawnPlan() {
  posix_spawn_file_actions_init(&actions_);
  posix_spawnattr_init(&attributes_);
}

SpawnPlan::~SpawnPlan() {
  posix_spawn_file_actions_destroy(&actions_);
  posix_spawnattr_destroy(&attributes_);
}

Status SpawnPlan::pass(const ProcessSpec& spec) {
  int highest = 2;
  for (const auto& [ours, theirs] : spec.pass_fds) highest = std::max(highest, theirs);
  for (const auto& [ours, theirs] : spec.pass_fds) {
    // Through a number above all targets first, so that no dup2 overwrites the source of another.
    held_.emplace_back(::fcntl(ours, F_DUPFD_CLOEXEC, highest + 1));
    if (!held_.back()) return fail_errno("pass a file descriptor", errno);
    posix_spawn_file_actions_adddup2(&actions_, held_.back().get(), theirs);
  }
  for (int fd = 3; fd < highest; ++fd) {
    const bool passed = std::any_of(spec.pass_fds.begin(), spec.pass_fds.end(),
                                    [&](const auto& pair) { return pair.second == fd; });
    if (!passed) posix_spawn_file_actions_addclose(&actions_, fd);
  }
  posix_spawn_file_actions_addclosefrom_np(&actions_, highest + 1);
  return {};
}

Status SpawnPlan::fill(const ProcessSpec& spec, int out, int err) {
  posix_spawn_file_actions_addopen(&actions_, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions_, out, 1);
  posix_spawn_file_actions_adddup2(&actions_, err, 2);
  TRY(pass(spec));
  if (!spec.folder.empty()) posix_spawn_file_actions_addchdir_np(&actions_, spec.folder.c_str());
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes_, &none);
  posix_spawnattr_setsigdefault(&attributes_, &all);
  posix_spawnattr_setflags(&attributes_,
                           POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  return {};
}

Result<int> SpawnPlan::spawn(const fs::path& program, const ProcessSpec& spec) {
  std::vector<char*> argv, environment;
  for (const std::string& word : spec.argv) argv.push_back(const_cast<char*>(word.c_str()));
  for (const std::string& word : spec.environment)
    environment.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  environment.push_back(nullptr);
  int pid = 0;
  const int code =
      posix_spawn(&pid, program.c_str(), &actions_, &attributes_, argv.data(), environment.data());
  if (code != 0) return fail_errno("start " + program.string(), code);
  return pid;
}

Result<fs::path> program_of(const ProcessSpec& spec) {
  if (spec.argv.empty() || spec.argv[0].empty())
    return fail(Fault::invalid, "a command without a program");
  if (spec.argv[0].find('/') != std::string::npos) return fs::path(spec.argv[0]);
  if (std::optional<fs::path> found = find_program(spec.argv[0])) return *found;
  return fail(Fault::not_found,
              "no program '" + spec.argv[0] + "' in PATH; install it or give its path");
}

// ---- surroundings

std::vector<std::string> clean_environment(const fs::path& temp_folder) {
  std::vector<std::string> environment = {"LANG=C.UTF-8", "TZ=UTC", "HOME=" + temp_folder.string(),
                                          "TMPDIR=" + temp_folder.string()};
  const char* path = std::getenv("PATH");
  environment.push_back(std::string("PATH=") + (path ? path : "/usr/local/bin:/usr/bin:/bin"));
  return environment;
}

std::optional<fs::path> find_program(const std::string& name) {
  if (name.find('/') != std::string::npos)
    return ::access(name.c_str(), X_OK) == 0 ? std::optional<fs::path>(name) : std::nullopt;
  const char* path = std::getenv("PATH");
  std::string_view rest = path ? path : "/usr/local/bin:/usr/bin:/bin";
  std::error_code none;
  while (!rest.empty()) {
    const std::string_view folder = rest.substr(0, rest.find(':'));
    const fs::path candidate = fs::path(folder) / name;
    if (!folder.empty() && ::access(candidate.c_str(), X_OK) == 0 &&
        fs::is_regular_file(candidate, none))
      return candidate;
    rest.remove_prefix(std::min(rest.size(), folder.size() + 1));
  }
  return std::nullopt;
}

fs::path own_folder() {
  std::error_code none;
  return fs::read_symlink("/proc/self/exe", none).parent_path();
}

}  // namespace marathon
