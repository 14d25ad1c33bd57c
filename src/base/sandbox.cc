#include "base/sandbox.h"

#include <fmt/format.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/landlock.h"

namespace marathon {

namespace fs = std::filesystem;

std::string_view to_string(SandboxLevel level) {
  switch (level) {
    case SandboxLevel::none:
      return "none";
    case SandboxLevel::limits:
      return "limits";
    case SandboxLevel::seccomp:
      return "seccomp";
    case SandboxLevel::full:
      return "full";
  }
  return "none";
}

namespace {

bool kernel_has_seccomp() {
  const uint32_t action = SECCOMP_RET_KILL_PROCESS;
  return ::syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0;
}

Status limit(int resource, int64_t value, const char* name) {
  if (value < 0) return {};
  rlimit now{};
  ::getrlimit(static_cast<__rlimit_resource>(resource), &now);
  const rlim_t wanted = std::min<rlim_t>(static_cast<rlim_t>(value), now.rlim_max);
  const rlimit both{wanted, wanted};
  if (::setrlimit(static_cast<__rlimit_resource>(resource), &both) != 0)
    return fail_errno(fmt::format("setrlimit {}", name), errno);
  return {};
}

// -1 stands for "leave it": 0 in a Jail means no limit.
int64_t or_none(int64_t value) { return value > 0 ? value : -1; }

Status apply_limits(const Jail& jail) {
  TRY(limit(RLIMIT_CORE, 0, "core"));
  TRY(limit(RLIMIT_AS, or_none(jail.max_memory_bytes), "memory"));
  TRY(limit(RLIMIT_FSIZE, or_none(jail.max_file_bytes), "file size"));
  TRY(limit(RLIMIT_CPU, or_none(jail.max_cpu_s), "CPU time"));
  TRY(limit(RLIMIT_NOFILE, or_none(jail.max_open_files), "open files"));
  return {};
}

Json paths_json(const std::vector<fs::path>& paths) {
  Json list = Json::array();
  for (const fs::path& path : paths) list.push_back(path.string());
  return list;
}

std::vector<fs::path> paths_from(const Json& json, const char* key) {
  std::vector<fs::path> paths;
  if (!json.contains(key) || !json.at(key).is_array()) return paths;
  for (const Json& path : json.at(key)) {
    if (path.is_string()) paths.emplace_back(path.get<std::string>());
  }
  return paths;
}

}  // namespace

SandboxStatus probe_sandbox() {
  SandboxStatus status;
  status.level = SandboxLevel::limits;
  status.landlock_abi = landlock_abi();
  if (!kernel_has_seccomp()) {
    status.missing =
        "the kernel has no seccomp filters (CONFIG_SECCOMP_FILTER): use a kernel that has them";
    return status;
  }
  status.level = SandboxLevel::seccomp;
  if (status.landlock_abi == 0) {
    status.missing =
        "Landlock is not on: boot Linux 5.13 or newer with 'landlock' in the list of lsm=";
    return status;
  }
  status.level = SandboxLevel::full;
  return status;
}

Result<SandboxStatus> enter_jail(const Jail& jail, bool require_full) {
  const SandboxStatus status = probe_sandbox();
  if (require_full && status.level != SandboxLevel::full) {
    return fail(Fault::system,
                "no full sandbox here: " + status.missing + "; or pass --unsafe-no-sandbox");
  }
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return fail_errno("no_new_privs", errno);
  TRY(apply_limits(jail));
  if (status.landlock_abi > 0) TRY(apply_landlock(jail));
  if (status.level >= SandboxLevel::seccomp) TRY(apply_seccomp(jail));
  return status;
}

std::string jail_to_json(const Jail& jail) {
  return dump_json({{"read_execute", paths_json(jail.read_execute)},
                    {"read_only", paths_json(jail.read_only)},
                    {"read_write", paths_json(jail.read_write)},
                    {"max_memory_bytes", jail.max_memory_bytes},
                    {"max_file_bytes", jail.max_file_bytes},
                    {"max_processes", jail.max_processes},
                    {"max_cpu_s", jail.max_cpu_s},
                    {"max_open_files", jail.max_open_files},
                    {"allow_fork", jail.allow_fork},
                    {"allow_threads", jail.allow_threads},
                    {"allow_exec", jail.allow_exec}});
}

Result<Jail> jail_from_json(std::string_view text) {
  const Json json = TRY(parse_json(text));
  if (!json.is_object()) return fail(Fault::invalid, "a jail is a JSON object");
  Jail jail;
  jail.read_execute = paths_from(json, "read_execute");
  jail.read_only = paths_from(json, "read_only");
  jail.read_write = paths_from(json, "read_write");
  jail.max_memory_bytes = json_int(json, "max_memory_bytes");
  jail.max_file_bytes = json_int(json, "max_file_bytes");
  jail.max_processes = json_int(json, "max_processes");
  jail.max_cpu_s = json_int(json, "max_cpu_s");
  jail.max_open_files = json_int(json, "max_open_files", 256);
  jail.allow_fork = json_bool(json, "allow_fork");
  jail.allow_threads = json_bool(json, "allow_threads");
  jail.allow_exec = json_bool(json, "allow_exec");
  return jail;
}

Jail toolchain_jail() {
  Jail jail;
  jail.read_execute = {"/usr", "/bin", "/lib", "/lib64", "/opt"};
  jail.read_only = {"/etc/ld.so.cache", "/etc/alternatives", "/dev/urandom",
                    "/dev/zero",        "/proc/cpuinfo",     "/sys/devices/system/cpu"};
  jail.read_write = {"/dev/null"};
  return jail;
}

}  // namespace marathon
