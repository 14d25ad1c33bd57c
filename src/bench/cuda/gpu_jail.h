// What a process with a GPU may touch when its code is not trusted. Tried on driver 580: less than
// this and cuInit fails (it writes below /proc/self/task).
#pragma once

#include <filesystem>

#include "base/sandbox.h"

namespace marathon {

inline Jail gpu_jail(const std::filesystem::path& temp_folder) {
  Jail jail;
  jail.read_execute = {"/usr", "/opt", "/bin", "/lib", "/lib64"};
  jail.read_only = {"/proc", "/etc/ld.so.cache", "/dev/urandom", "/sys/devices/system/cpu"};
  jail.read_write = {"/dev/null",        "/dev/nvidiactl",       "/dev/nvidia-uvm",
                     "/proc/self",       "/dev/nvidia0",         "/dev/nvidia1",
                     "/dev/nvidia2",     "/dev/nvidia3",         "/dev/nvidia4",
                     "/dev/nvidia5",     "/dev/nvidia6",         "/dev/nvidia7"};
  if (!temp_folder.empty()) jail.read_write.push_back(temp_folder);
  jail.max_file_bytes = 1LL << 30;
  jail.max_open_files = 1024;
  jail.allow_threads = true;  // the driver has some
  return jail;
}

}  // namespace marathon
