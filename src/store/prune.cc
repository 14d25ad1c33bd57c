// What a run needs, and the removal of what it does not.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "store/artifact_files.h"
#include "store/chain.h"
#include "store/needed.h"
#include "store/open.h"
#include "store/store.h"

namespace marathon {

namespace fs = std::filesystem;
using namespace store;  // NOLINT: the room's own inner namespace

namespace {

constexpr size_t shortest_prefix = 6;

bool starts_with_any(const std::string& hash, const std::vector<std::string>& prefixes) {
  return std::ranges::any_of(prefixes,
                             [&](const std::string& prefix) { return hash.starts_with(prefix); });
}

bool is_hex(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); }

void add_hex_words(const std::string& text, std::vector<std::string>& words) {
  std::string word;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && is_hex(text[i])) {
      word += text[i];
      continue;
    }
    if (word.size() >= shortest_prefix) words.push_back(word);
    word.clear();
  }
}

// Whose artifacts a payload names: a candidate's hash, or empty for the run's own.
std::optional<std::string> owner_of(const Payload& payload) {
  if (const CandidateAdded* added = std::get_if<CandidateAdded>(&payload)) return added->candidate;
  if (const EvaluationFinished* finished = std::get_if<EvaluationFinished>(&payload))
    return finished->candidate;
  if (const EvaluationStarted* started = std::get_if<EvaluationStarted>(&payload))
    return started->candidate;
  if (std::holds_alternative<RunStarted>(payload)) return "";
  return std::nullopt;
}

}  // namespace

std::vector<std::string> store::hashes_in_notes(const State& state) {
  std::vector<std::string> words;
  for (const std::string& note : state.notes) add_hex_words(note, words);
  return words;
}

std::set<std::string> store::needed_candidates(const State& state, bool notes) {
  const std::vector<std::string> named =
      notes ? hashes_in_notes(state) : std::vector<std::string>();
  std::set<std::string> needed;
  if (state.start) needed.insert(state.start->start_candidate);
  for (const Attempt& attempt : state.attempts) {
    if (attempt.became_incumbent || starts_with_any(attempt.candidate, named))
      needed.insert(attempt.candidate);
  }
  if (!state.attempts.empty()) needed.insert(state.attempts.back().candidate);
  if (state.evaluation_open) {
    needed.insert(state.evaluation_open->candidate);
    needed.insert(state.evaluation_open->incumbent);
  }
  return needed;
}

Result<std::set<std::string>> store::needed_artifacts(const State& state, RowReader& reader) {
  const std::set<std::string> candidates = needed_candidates(state, true);
  const std::vector<std::string> named = hashes_in_notes(state);
  std::set<std::string> needed;
  for (const auto& [path, hash] : state.workspace) needed.insert(hash);
  Chain chain;
  TRY(walk(reader, chain, [&](const Event& event) -> Result<bool> {
    const Payload payload = TRY(decode_payload(event.payload_type, event.payload));
    const std::optional<std::string> owner = owner_of(payload);
    const bool all = owner && (owner->empty() || candidates.contains(*owner));
    each_artifact(payload, [&](const std::string& hash) {
      if (all || starts_with_any(hash, named)) needed.insert(hash);
    });
    return true;
  }));
  return needed;
}

Result<PruneReport> prune_artifacts(const fs::path& run_folder, const State& state, bool dry_run) {
  OpenLog log = TRY(open_for_reading(run_folder));
  const std::set<std::string> needed = TRY(needed_artifacts(state, log.reader));
  PruneReport report;
  for (const ArtifactFile& file : TRY(list_artifacts(run_folder / artifacts_folder))) {
    if (needed.contains(file.hash)) {
      ++report.kept_files;
      report.kept_bytes += file.bytes;
      continue;
    }
    if (!dry_run && ::unlink(file.path.c_str()) != 0 && errno != ENOENT)
      return fail_errno("remove " + file.path.string(), errno);
    ++report.removed_files;
    report.removed_bytes += file.bytes;
  }
  return report;
}

}  // namespace marathon
