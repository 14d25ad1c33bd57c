#include "run/candidates.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/file.h"
#include "base/hash.h"
#include "run/run.h"

namespace marathon {

namespace fs = std::filesystem;

namespace {

constexpr size_t shortest_prefix = 6;

template <class Kind>
Result<Kind> payload_at(const fs::path& run_folder, int64_t sequence, const Attempt& attempt) {
  const Reader reader = TRY(Reader::open(run_folder));
  const Event event = TRY(reader.at(sequence));
  Payload payload = TRY(decode_payload(event.payload_type, event.payload));
  if (Kind* kind = std::get_if<Kind>(&payload)) return std::move(*kind);
  return fail(Fault::corrupt, fmt::format("event {} is not what attempt #{} expects there: see "
                                          "what is wrong with `marathon verify`",
                                          sequence, attempt.number));
}

// The best, or the one candidate whose hash begins with `name`.
Result<const Attempt*> attempt_named(const State& state, const std::string& name) {
  if (name.empty()) {
    if (const Attempt* best = incumbent_of(state)) return best;
    return fail(Fault::not_found, "no candidate of this run has passed yet: there is no best one");
  }
  if (name.size() < shortest_prefix)
    return fail(Fault::invalid, fmt::format("'{}' is too short: give {} or more digits of the "
                                            "candidate's hash",
                                            name, shortest_prefix));
  const Attempt* found = nullptr;
  for (const Attempt& attempt : state.attempts) {
    if (!attempt.candidate.starts_with(name)) continue;
    if (found)
      return fail(Fault::invalid, "'" + name + "' fits several candidates: give more of it");
    found = &attempt;
  }
  if (found) return found;
  return fail(Fault::not_found,
              "no candidate '" + name + "' in this run; `marathon log` names those that there are");
}

}  // namespace

const Attempt* find_attempt(const State& state, const std::string& candidate) {
  const auto found = state.attempt_of.find(candidate);
  if (found == state.attempt_of.end()) return nullptr;
  return &state.attempts[static_cast<size_t>(found->second)];
}

const Attempt* incumbent_of(const State& state) {
  return state.incumbent ? find_attempt(state, state.incumbent->candidate) : nullptr;
}

Result<std::string> hash_of(const FileHashes& files, const Artifacts& artifacts) {
  std::map<std::string, std::string> contents;
  for (const auto& [path, content] : files) contents[path] = TRY(artifacts.get(content));
  return hash_of_files(contents);
}

Result<FileHashes> files_of(const fs::path& run_folder, const Attempt& attempt) {
  return TRY(payload_at<CandidateAdded>(run_folder, attempt.added_sequence, attempt)).files;
}

Result<Verdict> verdict_of(const fs::path& run_folder, const Attempt& attempt) {
  return TRY(payload_at<EvaluationFinished>(run_folder, attempt.finished_sequence, attempt))
      .verdict;
}

Status write_candidate(const fs::path& home, const std::string& run, const std::string& candidate,
                       const fs::path& out) {
  const fs::path folder = run_folder(home, run);
  std::error_code none;
  if (!is_absent_or_empty(out))
    return fail(Fault::invalid, out.string() + " is not an empty folder: name a new one");
  // A link that leads nowhere would be replaced.
  if (fs::is_symlink(out, none) && !fs::exists(out, none))
    return fail(Fault::invalid, out.string() + " is a link to nothing: name a new folder");
  const Reader reader = TRY(Reader::open(folder));
  const State state = TRY(reader.fold());
  const Attempt& attempt = *TRY(attempt_named(state, candidate));
  const Artifacts artifacts = TRY(Artifacts::open(folder));
  if (Status made = make_folders(out); !made)
    return fail(Fault::system, "the files cannot be written there: " + made.error().what);
  Status written = write_files(TRY(files_of(folder, attempt)), artifacts, out);
  if (written || written.error().fault != Fault::not_found) return written;
  return fail(written.error(),
              fmt::format("the files of attempt #{} are no artifacts any more; git "
                          "still has them: git -C {} archive {} | tar -x",
                          attempt.number, (folder / "workspace").string(), attempt.commit));
}

}  // namespace marathon
