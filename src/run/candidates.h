// Candidates as the log has them: their files, their verdicts, their names. Inside of run/ only.
#pragma once

#include <filesystem>
#include <string>

#include "core/state.h"
#include "run/workspace.h"

namespace marathon {

// Null when the run has no such candidate.
const Attempt* find_attempt(const State& state, const std::string& candidate);
const Attempt* incumbent_of(const State& state);

// The hash of the content of the editable files: the same as candidate_hash() of judge/ gives for a
// folder with these files.
Result<std::string> hash_of(const FileHashes& files, const Artifacts& artifacts);

// Files of an attempt's candidate as they were added.
Result<FileHashes> files_of(const std::filesystem::path& run_folder, const Attempt& attempt);
// The verdict of an attempt that has one.
Result<Verdict> verdict_of(const std::filesystem::path& run_folder, const Attempt& attempt);

}  // namespace marathon
