// The workspace: files that the agent edits, rebuilt from artifacts after a crash; one git commit a
// candidate. Nothing here is truth: the log and the artifacts are, and both can be made again from
// them. Inside of run/ only.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "store/store.h"

namespace marathon {

using FileHashes = std::map<std::string, std::string>;  // path → content hash

// What a commit is made of. The same parts give the same commit on every machine: names and dates
// are fixed, and the date counts the attempts.
struct CommitParts {
  FileHashes files;
  std::string candidate;      // hash; the commit stands under refs/candidates/<hash>
  std::string parent_commit;  // or empty
  int64_t number = 0;         // of the attempt
  std::string message;
};

class Workspace {
 public:
  explicit Workspace(const std::filesystem::path& run_folder) : folder_(run_folder / "workspace") {}

  const std::filesystem::path& folder() const { return folder_; }

  Status create() const;  // git init
  // Makes the folder hold exactly these files.
  Status restore(const FileHashes& files, const Artifacts& artifacts) const;
  // Path → content hash; "": removed.
  Status change(const FileHashes& written, const Artifacts& artifacts) const;

  Result<std::string> commit(const CommitParts& parts, const Artifacts& artifacts) const;
  // Those of `commits` that the repository does not hold. It is not synced at every commit, so a
  // power cut may have taken some.
  Result<std::vector<std::string>> missing(const std::vector<std::string>& commits) const;
  // Points refs/heads/main at the best candidate.
  Status set_best(const std::string& commit) const;

 private:
  std::filesystem::path folder_;
};

// Writes files into a folder that is emptied first. What begins with "#!" can be executed.
Status write_files(const FileHashes& files, const Artifacts& artifacts,
                   const std::filesystem::path& folder);

}  // namespace marathon
