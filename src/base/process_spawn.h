// Starting one child. Inside of base/ only.
#pragma once

#include <spawn.h>

#include <filesystem>
#include <vector>

#include "base/file.h"
#include "base/process.h"
#include "base/result.h"

namespace marathon {

struct Pipe {
  Fd read, write;              // both close on exec
  static Result<Pipe> make();  // reading does not block
};

// What posix_spawn has to do between fork and exec. There is nothing of ours in between: code after
// fork in a program with threads is a trap.
class SpawnPlan {
 public:
  SpawnPlan();
  ~SpawnPlan();
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;

  // stdin from /dev/null, `out` and `err`, the passed descriptors and nothing else; a session of
  // its own; no signal blocked or ignored.
  Status fill(const ProcessSpec& spec, int out, int err);
  Result<int> spawn(const std::filesystem::path& program, const ProcessSpec& spec);

 private:
  Status pass(const ProcessSpec& spec);

  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
  std::vector<Fd> held_;
};

Result<std::filesystem::path> program_of(const ProcessSpec& spec);

}  // namespace marathon
