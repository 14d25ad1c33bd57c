// A file that appears whole or not at all, and survives a power cut once commit() returned.
//
// Like write_file_durable() in base, but in pieces, and under the fault switch (store/fault.h).
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/file.h"
#include "base/result.h"

namespace marathon::store {

inline constexpr std::string_view temp_prefix = ".tmp-";  // left over only after a crash

class DurableFile {
 public:
  // The temporary file stands in `folder`, which is created when it is absent.
  static Result<DurableFile> create(const std::filesystem::path& folder);
  DurableFile(DurableFile&&) noexcept = default;
  DurableFile& operator=(DurableFile&&) = delete;
  ~DurableFile();  // without commit(): nothing stays behind

  Status write(std::string_view bytes);
  Status overwrite(int64_t offset, std::string_view bytes);
  Status commit(const std::filesystem::path& path);  // in the same folder

 private:
  DurableFile(Fd fd, std::filesystem::path temp) : fd_(std::move(fd)), temp_(std::move(temp)) {}
  Fd fd_;
  std::filesystem::path temp_;
};

Status sync_folder(const std::filesystem::path& folder);

}  // namespace marathon::store
