#include "base/landlock.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "base/file.h"

namespace marathon {

namespace {

// From the kernel's uapi: numbers are for ever.
constexpr uint64_t right_execute = 1 << 0, right_write_file = 1 << 1, right_read_file = 1 << 2,
                   right_read_dir = 1 << 3;
constexpr uint64_t all_of_abi_1 = (1 << 13) - 1;
constexpr uint64_t right_refer = 1 << 13, right_truncate = 1 << 14, right_ioctl_dev = 1 << 15;
constexpr uint64_t net_bind = 1 << 0, net_connect = 1 << 1;
constexpr uint64_t scope_abstract_socket = 1 << 0, scope_signal = 1 << 1;
constexpr uint64_t file_rights =
    right_execute | right_write_file | right_read_file | right_truncate | right_ioctl_dev;

struct RulesetAttributes {
  uint64_t access_fs = 0, access_net = 0, scoped = 0;
};
struct [[gnu::packed]] PathAttributes {
  uint64_t allowed = 0;
  int32_t parent = -1;
};

uint64_t handled_rights(int abi) {
  uint64_t rights = all_of_abi_1;
  if (abi >= 2) rights |= right_refer;
  if (abi >= 3) rights |= right_truncate;
  if (abi >= 5) rights |= right_ioctl_dev;
  return rights;
}

Status allow(int ruleset, const std::filesystem::path& path, uint64_t rights) {
  const Fd fd(::open(path.c_str(), O_PATH | O_CLOEXEC));
  if (!fd) return {};  // absent folders need no rule
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return fail_errno("stat " + path.string(), errno);
  PathAttributes rule;
  rule.allowed = S_ISDIR(info.st_mode) ? rights : rights & file_rights;
  rule.parent = fd.get();
  if (::syscall(SYS_landlock_add_rule, ruleset, 1, &rule, 0) != 0)
    return fail_errno("landlock: allow " + path.string(), errno);
  return {};
}

}  // namespace

int landlock_abi() {
  const long abi = ::syscall(SYS_landlock_create_ruleset, nullptr, 0, 1);
  return abi > 0 ? static_cast<int>(abi) : 0;
}

Status apply_landlock(const Jail& jail) {
  const int abi = landlock_abi();
  RulesetAttributes attributes;
  attributes.access_fs = handled_rights(abi);
  if (abi >= 4) attributes.access_net = net_bind | net_connect;
  if (abi >= 6) attributes.scoped = scope_abstract_socket | scope_signal;
  const size_t size = abi >= 6 ? 24 : abi >= 4 ? 16 : 8;
  const Fd ruleset(static_cast<int>(::syscall(SYS_landlock_create_ruleset, &attributes, size, 0)));
  if (!ruleset) return fail_errno("landlock_create_ruleset", errno);
  const uint64_t read = right_read_file | right_read_dir;
  for (const auto& path : jail.read_execute) TRY(allow(ruleset.get(), path, read | right_execute));
  for (const auto& path : jail.read_only) TRY(allow(ruleset.get(), path, read));
  for (const auto& path : jail.read_write) TRY(allow(ruleset.get(), path, attributes.access_fs));
  if (::syscall(SYS_landlock_restrict_self, ruleset.get(), 0) != 0)
    return fail_errno("landlock_restrict_self", errno);
  return {};
}

}  // namespace marathon
