#include "store/durable.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "store/fault.h"

namespace marathon::store {

namespace fs = std::filesystem;

namespace {

tl::unexpected<Error> fail_as(FaultKind fault, const std::string& doing) {
  switch (fault) {
    case FaultKind::enospc:
    case FaultKind::short_write:
      return fail_errno(doing, ENOSPC);
    case FaultKind::eio:
      return fail_errno(doing, EIO);
  }
  return fail_errno(doing, EIO);
}

// offset < 0: at the current position.
Status write_whole(int fd, std::string_view bytes, int64_t offset) {
  while (!bytes.empty()) {
    const ssize_t written = offset < 0 ? ::write(fd, bytes.data(), bytes.size())
                                       : ::pwrite(fd, bytes.data(), bytes.size(), offset);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return fail_errno("write", errno);
    bytes.remove_prefix(static_cast<size_t>(written));
    if (offset >= 0) offset += written;
  }
  return {};
}

Status sync(int fd, const std::string& name) {
  if (const std::optional<FaultKind> fault = next_fault()) return fail_as(*fault, "fsync " + name);
  if (::fsync(fd) != 0) return fail_errno("fsync " + name, errno);
  return {};
}

// With its own entry in the folder above made durable, since a file is only as safe as its path.
Status make_folder(const fs::path& folder) {
  if (::mkdir(folder.c_str(), 0755) == 0) return sync_folder(folder.parent_path());
  if (errno == EEXIST) return {};
  if (errno != ENOENT) return fail_errno("create folder " + folder.string(), errno);
  TRY(make_folder(folder.parent_path()));
  if (::mkdir(folder.c_str(), 0755) != 0 && errno != EEXIST)
    return fail_errno("create folder " + folder.string(), errno);
  return sync_folder(folder.parent_path());
}

}  // namespace

Status sync_folder(const fs::path& folder) {
  const Fd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return fail_errno("open " + folder.string(), errno);
  return sync(fd.get(), folder.string());
}

Result<DurableFile> DurableFile::create(const fs::path& folder) {
  static std::atomic<int64_t> number = 0;
  TRY(make_folder(folder));
  fs::path temp = folder / fmt::format("{}{}-{}", temp_prefix, ::getpid(), ++number);
  Fd fd(::open(temp.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!fd) return fail_errno("create " + temp.string(), errno);
  return DurableFile(std::move(fd), std::move(temp));
}

DurableFile::~DurableFile() {
  if (!temp_.empty()) ::unlink(temp_.c_str());
}

Status DurableFile::write(std::string_view bytes) {
  if (const std::optional<FaultKind> fault = next_fault()) {
    if (*fault == FaultKind::short_write)
      (void)write_whole(fd_.get(), bytes.substr(0, bytes.size() / 2), -1);
    return fail_as(*fault, "write " + temp_.string());
  }
  return write_whole(fd_.get(), bytes, -1);
}

Status DurableFile::overwrite(int64_t offset, std::string_view bytes) {
  return write_whole(fd_.get(), bytes, offset);
}

Status DurableFile::commit(const fs::path& path) {
  TRY(sync(fd_.get(), temp_.string()));
  if (::rename(temp_.c_str(), path.c_str()) != 0)
    return fail_errno("rename to " + path.string(), errno);
  temp_.clear();
  // A name that may vanish in a power cut must not be taken for durable by the next caller.
  if (Status synced = sync_folder(path.parent_path()); !synced) {
    ::unlink(path.c_str());
    return synced;
  }
  return {};
}

}  // namespace marathon::store
