// The jail: Landlock for files, seccomp for system calls, rlimits, no new privileges. No root needed.
//
// A process applies it to itself and can never take it back. Programs that are not ours (compiler,
// a task's commands) are started through `marathon-worker exec --jail FILE -- argv…`, which applies
// the jail and then becomes the program.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"

namespace marathon {

struct Jail {
  std::vector<std::filesystem::path> read_execute;  // with everything below; those absent are skipped
  std::vector<std::filesystem::path> read_only;
  std::vector<std::filesystem::path> read_write;
  int64_t max_memory_bytes = 0;   // RLIMIT_AS; 0: none (never on a CUDA process)
  int64_t max_file_bytes = 0;     // RLIMIT_FSIZE; 0: none
  int64_t max_processes = 0;      // how many tasks it may have at once; 0: none. See sandbox.cc.
  int64_t max_cpu_s = 0;          // RLIMIT_CPU; 0: none
  int64_t max_open_files = 256;
  bool allow_fork = false;        // false: seccomp refuses fork, vfork and new threads with EPERM
  bool allow_threads = false;     // with allow_fork false: threads, but no processes
  bool allow_exec = false;
};

enum class SandboxLevel {
  none,     // nothing could be applied
  limits,   // rlimits and no_new_privs only
  seccomp,  // and seccomp
  full,     // and Landlock (ABI 1 or newer)
};

std::string_view to_string(SandboxLevel level);

struct SandboxStatus {
  SandboxLevel level = SandboxLevel::none;
  int landlock_abi = 0;
  std::string missing;  // why the level is not full, and what to do about it
};

// What this kernel can do; applies nothing.
SandboxStatus probe_sandbox();

// Applies the jail to this process. With `require_full`, anything less than full is an Error.
Result<SandboxStatus> enter_jail(const Jail& jail, bool require_full);

// Text form for `marathon-worker exec --jail FILE` and for requests.
std::string jail_to_json(const Jail& jail);
Result<Jail> jail_from_json(std::string_view text);

// The usual folders a compiler or a dynamic linker needs: /usr /bin /lib /lib64 /opt /etc/ld.so.cache.
Jail toolchain_jail();

}  // namespace marathon
