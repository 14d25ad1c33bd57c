// Artifacts: one file a content, named by its hash: artifacts/ab/abcd….
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "base/file.h"
#include "base/hash.h"
#include "store/artifact_files.h"
#include "store/durable.h"
#include "store/fault.h"
#include "store/store.h"

namespace marathon {

namespace fs = std::filesystem;
using namespace store;  // NOLINT: the room's own inner namespace

namespace {

Status check_hash(const std::string& hash) {
  if (is_hash(hash)) return {};
  return fail(Fault::invalid,
              fmt::format("'{}' is not the hash of an artifact", hash.substr(0, 80)));
}

int64_t file_bytes(const fs::path& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) ? info.st_size : -1;
}

Status write_artifact(const fs::path& path, std::string_view bytes) {
  DurableFile file = TRY(DurableFile::create(path.parent_path()));
  TRY(file.write(bytes));
  return file.commit(path);
}

}  // namespace

Artifacts::Artifacts(fs::path folder, int64_t quota, int64_t bytes)
    : folder_(std::move(folder)), quota_bytes_(quota), bytes_(bytes) {}

Result<Artifacts> Artifacts::open(const fs::path& run_folder, int64_t quota_bytes) {
  TRY(use_fault_switch());
  const fs::path folder = run_folder / artifacts_folder;
  int64_t bytes = 0;
  for (const ArtifactFile& file : TRY(list_artifacts(folder))) bytes += file.bytes;
  return Artifacts(folder, quota_bytes, bytes);
}

Result<std::string> Artifacts::put(std::string_view content) {
  std::string hash = sha256_hex(content);
  const fs::path path = path_of(hash);
  const int64_t size = static_cast<int64_t>(content.size());
  const int64_t before = file_bytes(path);
  if (before == size) {
    // Perhaps written by a process that was killed before its folder was synced.
    TRY(sync_folder(path.parent_path()));
    return hash;
  }
  const int64_t grown = bytes_ - std::max<int64_t>(before, 0) + size;
  if (quota_bytes_ > 0 && grown > quota_bytes_) {
    return fail(
        Fault::no_space,
        fmt::format("the artifacts of this run have reached their quota of {} MB: free some "
                    "with `marathon prune {}`, or raise the quota",
                    quota_bytes_ >> 20, folder_.parent_path().filename().string()));
  }
  if (const Status written = write_artifact(path, content); !written) {
    return fail(written.error(),
                fmt::format("artifact {} of {} bytes was not stored", short_hash(hash), size));
  }
  bytes_ = grown;
  return hash;
}

Result<std::string> Artifacts::get(const std::string& hash) const {
  TRY(check_hash(hash));
  Result<std::string> bytes = read_file(path_of(hash));
  if (!bytes && bytes.error().fault == Fault::not_found) {
    return fail(Fault::not_found,
                fmt::format("artifact {} is not there: it may have been pruned", short_hash(hash)));
  }
  if (!bytes) return bytes;
  if (sha256_hex(*bytes) != hash) {
    return fail(Fault::corrupt,
                fmt::format("artifact {} was changed or damaged: restore {} from a backup",
                            short_hash(hash), path_of(hash).string()));
  }
  return bytes;
}

bool Artifacts::has(const std::string& hash) const {
  return is_hash(hash) && file_bytes(path_of(hash)) >= 0;
}

fs::path Artifacts::path_of(const std::string& hash) const { return artifact_path(folder_, hash); }

int64_t Artifacts::bytes() const { return bytes_; }

}  // namespace marathon
