#include "base/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <system_error>

namespace marathon {

namespace fs = std::filesystem;

Fd& Fd::operator=(Fd&& other) noexcept {
  if (this != &other) {
    reset();
    fd_ = other.release();
  }
  return *this;
}

void Fd::reset() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

namespace {

tl::unexpected<Error> fail_code(const std::string& doing, const std::error_code& code) {
  return fail_errno(doing, code.value());
}

Status write_all(int fd, std::string_view bytes, const fs::path& path) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return fail_errno("write " + path.string(), errno);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return {};
}

Status sync_folder(const fs::path& folder) {
  const Fd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return fail_errno("open " + folder.string(), errno);
  if (::fsync(fd.get()) != 0) return fail_errno("fsync " + folder.string(), errno);
  return {};
}

Status write_and_sync(const fs::path& path, std::string_view bytes) {
  const Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!fd) return fail_errno("create " + path.string(), errno);
  TRY(write_all(fd.get(), bytes, path));
  if (::fsync(fd.get()) != 0) return fail_errno("fsync " + path.string(), errno);
  return {};
}

fs::path parent_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

}  // namespace

Result<std::string> read_file(const fs::path& path, int64_t max_bytes) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return fail_errno("open " + path.string(), errno);
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return fail_errno("stat " + path.string(), errno);
  if (!S_ISREG(info.st_mode)) return fail(Fault::invalid, path.string() + " is not a regular file");
  std::string bytes;
  bytes.reserve(static_cast<size_t>(std::min<int64_t>(info.st_size, max_bytes)));
  char buffer[1 << 16];
  while (true) {
    const ssize_t got = ::read(fd.get(), buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail_errno("read " + path.string(), errno);
    if (got == 0) return bytes;
    bytes.append(buffer, static_cast<size_t>(got));
    if (static_cast<int64_t>(bytes.size()) > max_bytes) {
      return fail(Fault::invalid,
                  fmt::format("{} is larger than {} bytes", path.string(), max_bytes));
    }
  }
}

Status write_file_durable(const fs::path& path, std::string_view bytes) {
  const fs::path beside = path.string() + fmt::format(".tmp-{}", ::getpid());
  if (Status written = write_and_sync(beside, bytes); !written) {
    ::unlink(beside.c_str());
    return written;
  }
  if (::rename(beside.c_str(), path.c_str()) != 0) {
    const int error_number = errno;
    ::unlink(beside.c_str());
    return fail_errno("rename to " + path.string(), error_number);
  }
  return sync_folder(parent_of(path));
}

Status write_file(const fs::path& path, std::string_view bytes) {
  const Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!fd) return fail_errno("create " + path.string(), errno);
  return write_all(fd.get(), bytes, path);
}

Status make_folders(const fs::path& folder) {
  std::error_code code;
  fs::create_directories(folder, code);
  if (code) return fail_code("create folder " + folder.string(), code);
  return {};
}

Status remove_tree(const fs::path& folder) {
  std::error_code code;
  fs::remove_all(folder, code);
  if (code) return fail_code("remove " + folder.string(), code);
  return {};
}

Status copy_tree(const fs::path& from, const fs::path& to) {
  TRY(make_folders(to));
  for (const fs::path& relative : TRY(list_files(from))) {
    TRY(make_folders((to / relative).parent_path()));
    std::error_code code;
    fs::copy_file(from / relative, to / relative, fs::copy_options::overwrite_existing, code);
    if (code) return fail_code("copy " + (from / relative).string(), code);
  }
  return {};
}

Result<std::vector<fs::path>> list_files(const fs::path& folder) {
  std::error_code code;
  std::vector<fs::path> files;
  fs::recursive_directory_iterator at(folder, code);
  if (code) return fail_code("list " + folder.string(), code);
  for (const fs::recursive_directory_iterator end; at != end;) {
    if (at->symlink_status(code).type() == fs::file_type::regular) {
      files.push_back(at->path().lexically_relative(folder));
    }
    at.increment(code);
    if (code) return fail_code("list " + folder.string(), code);
  }
  std::sort(files.begin(), files.end());
  return files;
}

bool is_safe_relative(const fs::path& relative) {
  if (relative.empty() || relative.is_absolute()) return false;
  for (const fs::path& part : relative) {
    if (part.empty() || part == "." || part == "..") return false;
  }
  return relative.native().find('\0') == std::string::npos;
}

bool is_hidden(const fs::path& relative) {
  return std::any_of(relative.begin(), relative.end(),
                     [](const fs::path& part) { return part.native().starts_with('.'); });
}

bool is_absent_or_empty(const fs::path& folder) {
  std::error_code none;
  return !fs::exists(folder, none) ||
         (fs::is_directory(folder, none) && fs::is_empty(folder, none));
}

Result<int64_t> free_bytes(const fs::path& folder) {
  struct statvfs info {};
  if (::statvfs(folder.c_str(), &info) != 0) return fail_errno("statvfs " + folder.string(), errno);
  return static_cast<int64_t>(info.f_bavail) * static_cast<int64_t>(info.f_frsize);
}

Result<TempFolder> TempFolder::make(std::string_view prefix) {
  const char* root = std::getenv("TMPDIR");
  std::string pattern = fmt::format("{}/{}-XXXXXX", root && *root ? root : "/tmp", prefix);
  if (!::mkdtemp(pattern.data())) return fail_errno("create folder " + pattern, errno);
  return TempFolder(fs::path(pattern));
}

TempFolder::~TempFolder() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

}  // namespace marathon
