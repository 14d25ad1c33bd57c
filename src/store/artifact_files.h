// Where artifacts lie, which there are, and which events name them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "core/event.h"

namespace marathon::store {

inline constexpr const char* artifacts_folder = "artifacts";

bool is_hash(std::string_view text);  // 64 lower-case hex digits

// Empty for what is no hash: nothing outside `folder` can be named.
std::filesystem::path artifact_path(const std::filesystem::path& folder, const std::string& hash);

struct ArtifactFile {
  std::string hash;  // empty: a temporary file that a killed process left
  std::filesystem::path path;
  int64_t bytes = 0;
};
// In the order of their names. None when the folder is absent.
Result<std::vector<ArtifactFile>> list_artifacts(const std::filesystem::path& folder);

// Calls `visit` with the hash of every artifact that this payload names.
void each_artifact(const Payload& payload, const std::function<void(const std::string&)>& visit);

}  // namespace marathon::store
