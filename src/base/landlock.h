// Landlock's system calls: glibc has no wrappers and Debian 12's header knows ABI 1 to 2 only.
// Inside of base/ only.
#pragma once

#include "base/sandbox.h"

namespace marathon {

int landlock_abi();  // 0: the kernel has none or it is switched off

// Restricts this process to the jail's folders, and where the ABI knows it, from TCP (4), device
// ioctls (5), and signals and abstract sockets to outside (6).
Status apply_landlock(const Jail& jail);

// System calls: see seccomp.cc for the list and why.
Status apply_seccomp(const Jail& jail);

}  // namespace marathon
