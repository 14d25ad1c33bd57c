// Where what lies in a request folder. Inside of judge/ only.
#pragma once

#include <filesystem>
#include <string>

namespace marathon {

std::filesystem::path task_folder(const std::filesystem::path& request);
std::filesystem::path incumbent_folder(const std::filesystem::path& request);
std::filesystem::path candidate_folder(const std::filesystem::path& request,
                                       const std::string& candidate);

}  // namespace marathon
