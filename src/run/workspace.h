// The workspace: files that the agent edits, rebuilt from artifacts after a crash; one git commit a
// candidate. Inside of run/ only.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "base/result.h"
#include "store/store.h"

namespace marathon {

using FileHashes = std::map<std::string, std::string>;  // path → content hash

class Workspace {
 public:
  explicit Workspace(const std::filesystem::path& run_folder) : folder_(run_folder / "workspace") {}

  const std::filesystem::path& folder() const { return folder_; }

  Status create() const;  // git init
  // Makes the folder hold exactly these files.
  Status restore(const FileHashes& files, const Artifacts& artifacts) const;
  Status write(const std::string& path, std::string_view content) const;

  // Commits exactly these files under refs/candidates/<hash>; the commit's id. The same call gives
  // the same id: dates are made from the attempt's number.
  Result<std::string> commit(const FileHashes& files, const Artifacts& artifacts,
                             const std::string& candidate, const std::string& parent_commit,
                             int64_t number, const std::string& message) const;
  // Points refs/heads/main at the best candidate.
  Status set_best(const std::string& commit) const;

 private:
  std::filesystem::path folder_;
};

// Writes files into a folder that is emptied first.
Status write_files(const FileHashes& files, const Artifacts& artifacts,
                   const std::filesystem::path& folder);

}  // namespace marathon
