// The request folder: request.json (the manifest), task/, candidates/HASH/, incumbent/.
#include "judge/elsewhere_pack.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/hash.h"
#include "judge/bench_call.h"

namespace marathon {

namespace fs = std::filesystem;

namespace {

constexpr const char* manifest_file = "request.json";
constexpr int64_t max_manifest_bytes = 64LL << 20;

// A task's hash is made of every file but the hidden ones.
Result<PathHashes> hashes_in(const fs::path& folder, bool with_hidden) {
  PathHashes hashes;
  for (const fs::path& file : TRY(list_files(folder))) {
    if (with_hidden || !is_hidden(file))
      hashes[file.generic_string()] = TRY(sha256_file(folder / file));
  }
  return hashes;
}

Status copy_one(const fs::path& from, const fs::path& to) {
  TRY(make_folders(to.parent_path()));
  std::error_code code;
  fs::copy_file(from, to, code);
  if (code) return fail_errno("copy " + from.string(), code.value());
  return {};
}

Status copy_task(const LoadedTask& task, const PathHashes& files, const fs::path& to) {
  for (const auto& [file, hash] : files) TRY(copy_one(task.folder / file, to / file));
  return {};
}

std::string name_of(const fs::path& folder) {
  fs::path path = fs::absolute(folder).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  return path.filename().string();
}

// Its editable files to where they belong below `request`.
Result<PackedCandidate> pack_one(const LoadedTask& task, const fs::path& from,
                                 const fs::path& request, bool is_incumbent) {
  std::error_code none;
  if (!fs::is_directory(from, none))
    return fail(Fault::not_found, fmt::format("there is no folder '{}'", from.string()));
  Result<CandidateFiles> files = read_candidate(task, from);
  if (!files) return fail(files.error(), "candidate " + from.string());
  if (files->editable.empty())
    return fail(Fault::invalid,
                fmt::format("{} holds none of the task's editable files: {}", from.string(),
                            fmt::join(task.task.files.editable, ", ")));
  PackedCandidate packed;
  packed.name = name_of(from);
  packed.candidate = TRY(candidate_hash(task.task, from));
  const fs::path to =
      is_incumbent ? incumbent_folder(request) : candidate_folder(request, packed.candidate);
  if (fs::exists(to, none))
    return fail(Fault::invalid, fmt::format("{} holds the same files as another candidate: leave "
                                            "one of them out",
                                            from.string()));
  for (const SourceFile& file : files->editable) {
    TRY(copy_one(from / file.path, to / file.path));
    packed.files[file.path.generic_string()] = TRY(sha256_file(to / file.path));
  }
  if (TRY(candidate_hash(task.task, to)) == packed.candidate) return packed;
  return fail(Fault::retry,
              fmt::format("{} changed while it was packed: pack it again", from.string()));
}

Result<JudgeRequest> pack_all(const PackPlan& plan, const LoadedTask& task, const fs::path& to) {
  JudgeRequest request;
  request.marathon_version = MARATHON_VERSION;
  request.task_name = task.task.name;
  request.task_hash = task.hash;
  request.task_files = TRY(hashes_in(task.folder, false));
  TRY(copy_task(task, request.task_files, task_folder(to)));
  for (const PackPlan::Item& item : plan.candidates) {
    PackedCandidate packed = TRY(pack_one(task, item.folder, to, false));
    packed.note = item.note;
    packed.category = item.category;
    request.candidates.push_back(std::move(packed));
  }
  if (!plan.incumbent_folder.empty())
    request.incumbent = TRY(pack_one(task, plan.incumbent_folder, to, true));
  return request;
}

// In words: the first file that is not what it was.
Status require_same(const PathHashes& packed, const PathHashes& now, const fs::path& folder) {
  const auto changed = [&](const std::string& file, const char* how) {
    return fail(Fault::corrupt,
                fmt::format("{} {} since it was packed: take the request folder again from where "
                            "it was made, or pack a new one",
                            (folder / file).string(), how));
  };
  for (const auto& [file, hash] : packed) {
    const auto found = now.find(file);
    if (found == now.end()) return changed(file, "was removed");
    if (found->second != hash) return changed(file, "was changed");
  }
  for (const auto& [file, hash] : now) {
    if (!packed.contains(file)) return changed(file, "was added");
  }
  return {};
}

Status require_candidate(const Task& task, const PackedCandidate& packed, const fs::path& folder) {
  TRY(require_same(packed.files, TRY(hashes_in(folder, true)), folder));
  if (TRY(candidate_hash(task, folder)) == packed.candidate) return {};
  return fail(Fault::corrupt,
              fmt::format("the files in {} are not candidate {}: pack a new request",
                          folder.string(), short_hash(packed.candidate)));
}

}  // namespace

fs::path task_folder(const fs::path& request) { return request / "task"; }
fs::path incumbent_folder(const fs::path& request) { return request / "incumbent"; }
fs::path candidate_folder(const fs::path& request, const std::string& candidate) {
  return request / "candidates" / short_hash(candidate);
}

Result<JudgeRequest> pack_request(const PackPlan& plan, const fs::path& folder) {
  if (!is_absent_or_empty(folder))
    return fail(Fault::invalid, fmt::format("{} is there already and is not overwritten: name a "
                                            "new folder",
                                            folder.string()));
  const LoadedTask task = TRY(load_task(plan.task_folder));
  // Under another name first: half a request is never seen under its own.
  fs::path whole = fs::absolute(folder).lexically_normal();
  if (!whole.has_filename()) whole = whole.parent_path();
  const fs::path beside = whole.string() + fmt::format(".tmp-{}", ::getpid());
  Result<JudgeRequest> request = pack_all(plan, task, beside);
  Status written = request ? write_file_durable(beside / manifest_file,
                                                dump_json_pretty(to_json(*request)) + "\n")
                           : Status(tl::unexpected(request.error()));
  if (written && ::rename(beside.c_str(), whole.c_str()) != 0)
    written = fail_errno("rename to " + whole.string(), errno);
  if (written) return request;
  (void)remove_tree(beside);
  return tl::unexpected(written.error());
}

Result<JudgeRequest> open_request(const fs::path& folder) {
  const Result<std::string> text = read_file(folder / manifest_file, max_manifest_bytes);
  if (!text)
    return fail(text.error().fault,
                fmt::format("{} is no request folder ({}): make one with `marathon judge TASK "
                            "CANDIDATE … --pack DIR`",
                            folder.string(), text.error().what));
  const Result<Json> json = parse_json(*text);
  Result<JudgeRequest> request =
      json ? judge_request_from(*json) : Result<JudgeRequest>(tl::unexpected(json.error()));
  if (!request) return fail(request.error(), (folder / manifest_file).string());
  const fs::path task_files = task_folder(folder);
  TRY(require_same(request->task_files, TRY(hashes_in(task_files, false)), task_files));
  const LoadedTask task = TRY(load_task(task_files));
  if (task.hash != request->task_hash)
    return fail(Fault::corrupt, "the task in " + folder.string() +
                                    " is not the one that was packed: pack a new request");
  for (const PackedCandidate& packed : request->candidates)
    TRY(require_candidate(task.task, packed, candidate_folder(folder, packed.candidate)));
  if (request->incumbent)
    TRY(require_candidate(task.task, *request->incumbent, incumbent_folder(folder)));
  return request;
}

}  // namespace marathon
