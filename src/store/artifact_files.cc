#include "store/artifact_files.h"

#include <algorithm>
#include <system_error>

#include "base/file.h"
#include "store/durable.h"

namespace marathon::store {

namespace fs = std::filesystem;

namespace {

using Visit = std::function<void(const std::string&)>;

void each_value(const std::map<std::string, std::string>& files, const Visit& visit) {
  for (const auto& [path, hash] : files) {
    if (!hash.empty()) visit(hash);  // empty: the path was removed
  }
}

void named_by(const RunStarted& p, const Visit& visit) { each_value(p.workspace, visit); }
void named_by(const ToolFinished& p, const Visit& visit) { each_value(p.written, visit); }
void named_by(const CandidateAdded& p, const Visit& visit) { each_value(p.files, visit); }
void named_by(const EvaluationStarted& p, const Visit& visit) {
  if (!p.result.empty()) visit(p.result);
}
void named_by(const EvaluationFinished& p, const Visit& visit) {
  visit_artifacts(p.verdict, [&](const std::string& hash) {
    if (!hash.empty()) visit(hash);
  });
}
void named_by(const auto&, const Visit&) {}

}  // namespace

bool is_hash(std::string_view text) {
  return text.size() == 64 && std::ranges::all_of(text, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

fs::path artifact_path(const fs::path& folder, const std::string& hash) {
  return is_hash(hash) ? folder / hash.substr(0, 2) / hash : fs::path();
}

Result<std::vector<ArtifactFile>> list_artifacts(const fs::path& folder) {
  std::vector<ArtifactFile> files;
  std::error_code code;
  if (!fs::exists(folder, code)) return files;
  for (const fs::path& relative : TRY(list_files(folder))) {
    const std::string name = relative.filename().string();
    const bool is_temp = name.starts_with(temp_prefix);
    if (!is_temp && !(is_hash(name) && relative.parent_path() == name.substr(0, 2))) continue;
    const uintmax_t bytes = fs::file_size(folder / relative, code);
    if (code) continue;  // gone since it was listed: a temporary file that was renamed
    files.push_back({is_temp ? "" : name, folder / relative, static_cast<int64_t>(bytes)});
  }
  return files;
}

void each_artifact(const Payload& payload, const Visit& visit) {
  std::visit([&](const auto& p) { named_by(p, visit); }, payload);
}

}  // namespace marathon::store
