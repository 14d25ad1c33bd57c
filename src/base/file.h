// Files: whole reads, durable writes, folders.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace marathon {

// Owns a file descriptor.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept;
  ~Fd() { reset(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }
  void reset();

 private:
  int fd_ = -1;
};

// Reads a regular file. Error invalid when it is larger than `max_bytes`, not_found when absent.
Result<std::string> read_file(const std::filesystem::path& path, int64_t max_bytes = 1LL << 30);

// Writes beside, fsyncs, renames, fsyncs the folder: a reader sees the old bytes or the new ones,
// and after a return without error the new ones survive a power cut.
Status write_file_durable(const std::filesystem::path& path, std::string_view bytes);

// Plain write for scratch files that nobody needs after a crash.
Status write_file(const std::filesystem::path& path, std::string_view bytes);

Status make_folders(const std::filesystem::path& folder);
Status remove_tree(const std::filesystem::path& folder);
Status copy_tree(const std::filesystem::path& from, const std::filesystem::path& to);

// Regular files below `folder`, relative, sorted. Symbolic links are not followed and not listed.
Result<std::vector<std::filesystem::path>> list_files(const std::filesystem::path& folder);

// True when `relative` stays below the folder that it is joined to: no "..", not absolute, no
// component that is empty.
bool is_safe_relative(const std::filesystem::path& relative);

// Is the file or a folder above it named with a dot in front (.git and the like)?
bool is_hidden(const std::filesystem::path& relative);

// Nothing is there, or an empty folder: what may be written to without losing anything.
bool is_absent_or_empty(const std::filesystem::path& folder);

Result<int64_t> free_bytes(const std::filesystem::path& folder);

// A fresh folder under $TMPDIR or /tmp, removed with everything in it at the end.
class TempFolder {
 public:
  static Result<TempFolder> make(std::string_view prefix);
  TempFolder(TempFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  TempFolder& operator=(TempFolder&&) = delete;
  ~TempFolder();
  const std::filesystem::path& path() const { return path_; }

 private:
  explicit TempFolder(std::filesystem::path path) : path_(std::move(path)) {}
  std::filesystem::path path_;
};

}  // namespace marathon
