// `marathon verify`: goes on behind damage, to list all of it.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <unordered_map>
#include <unordered_set>

#include "base/hash.h"
#include "store/artifact_files.h"
#include "store/chain.h"
#include "store/needed.h"
#include "store/open.h"
#include "store/snapshot.h"
#include "store/store.h"
#include "store/wal.h"

namespace marathon {

namespace fs = std::filesystem;
using namespace store;  // NOLINT: the room's own inner namespace

namespace {

constexpr size_t max_problems = 200;

class Problems {
 public:
  void add(std::string text) {
    if (list_.size() < max_problems) list_.push_back(std::move(text));
    ++count_;
  }
  std::vector<std::string> take() {
    if (count_ > max_problems) list_.push_back(fmt::format("… and {} more", count_ - max_problems));
    return std::move(list_);
  }

 private:
  std::vector<std::string> list_;
  size_t count_ = 0;
};

// Sequence and hashes. Unlike Chain it never stops: after a break it goes on from what is there.
class ChainCheck {
 public:
  explicit ChainCheck(Problems& problems) : problems_(problems) {}

  // A damaged tree may give records in any order: reading on would never end.
  bool goes_on(const Event& event) {
    if (event.sequence > last_) return true;
    problems_.add(fmt::format("event {} stands behind event {}: nothing behind it can be read",
                              event.sequence, last_));
    return false;
  }

  bool accept(const Event& event) {  // false: its content cannot be trusted
    if (event.sequence != last_ + 1)
      problems_.add(fmt::format("events {} to {} are missing", last_ + 1, event.sequence - 1));
    last_ = event.sequence;
    const bool fits = chain_hash(event) == event.hash;
    if (!fits) {
      problems_.add(fmt::format("event {} does not fit its hash: it was changed or cut", last_));
      stored_hash_ = event.hash;
      return false;
    }
    // Behind a torn record the writer goes on from the last one that counts.
    const bool follows = event.previous_hash == good_hash_;
    if (!follows && event.previous_hash != stored_hash_)
      problems_.add(fmt::format("event {} was not written behind the event before it", last_));
    good_hash_ = stored_hash_ = event.hash;
    return true;
  }
  int64_t last() const { return last_; }
  const std::string& last_hash() const { return good_hash_; }

 private:
  Problems& problems_;
  int64_t last_ = 0;
  std::string good_hash_, stored_hash_;
};

// One intent and one outcome for a key.
class KeyCheck {
 public:
  explicit KeyCheck(Problems& problems) : problems_(problems) {}

  void accept(int64_t sequence, const Payload& payload) {
    if (const EvaluationStarted* started = std::get_if<EvaluationStarted>(&payload)) {
      const bool fresh = started_.insert(started->key).second;
      if (!fresh && repeated_.erase(started->key) == 0)
        problems_.add(fmt::format("event {}: a second intent of key {}", sequence, started->key));
    } else if (const EvaluationRepeated* again = std::get_if<EvaluationRepeated>(&payload)) {
      repeated_.insert(again->key);
    } else if (const EvaluationFinished* finished = std::get_if<EvaluationFinished>(&payload)) {
      if (!started_.contains(finished->key))
        problems_.add(fmt::format("event {}: an outcome of key {} without an intent", sequence,
                                  finished->key));
      if (!finished_.insert(finished->key).second)
        problems_.add(fmt::format("event {}: a second outcome of key {}", sequence, finished->key));
    }
  }

 private:
  Problems& problems_;
  std::unordered_set<std::string> started_, repeated_, finished_;
};

// Artifacts that events name: there, unless they may have been pruned, and with the right content.
class ArtifactCheck {
 public:
  void accept(int64_t sequence, const Payload& payload) {
    if (std::holds_alternative<ArtifactsPruned>(payload)) pruned_ = sequence;
    each_artifact(payload, [&](const std::string& hash) { named_[hash] = sequence; });
    if (std::holds_alternative<RunStarted>(payload))
      each_artifact(payload, [&](const std::string& hash) { of_start_.insert(hash); });
    if (const CandidateAdded* added = std::get_if<CandidateAdded>(&payload)) {
      for (const auto& [path, hash] : added->files) owners_[hash].push_back(added->candidate);
    }
  }

  void finish(const fs::path& folder, const State& state, Problems& problems) const {
    const std::set<std::string> needed = needed_candidates(state, false);
    for (const auto& [hash, sequence] : named_) {
      if (!is_hash(hash)) {
        problems.add(fmt::format("event {} names an artifact by '{}', which is no hash", sequence,
                                 hash.substr(0, 80)));
        continue;
      }
      const Result<std::string> content = sha256_file(artifact_path(folder, hash));
      if (content && *content != hash) {
        problems.add(fmt::format("artifact {} (event {}) does not fit its hash", hash, sequence));
      } else if (!content && content.error().fault != Fault::not_found) {
        problems.add(content.error().what);
      } else if (!content && (sequence > pruned_ || is_needed(hash, needed))) {
        problems.add(fmt::format("artifact {} is missing, event {} names it", hash, sequence));
      }
    }
  }

 private:
  bool is_needed(const std::string& hash, const std::set<std::string>& candidates) const {
    if (of_start_.contains(hash)) return true;
    const auto owners = owners_.find(hash);
    if (owners == owners_.end()) return false;
    return std::ranges::any_of(owners->second, [&](const std::string& candidate) {
      return candidates.contains(candidate);
    });
  }

  int64_t pruned_ = 0;  // sequence of the last prune
  std::unordered_set<std::string> of_start_;
  std::unordered_map<std::string, int64_t> named_;  // hash → last event that names it
  std::unordered_map<std::string, std::vector<std::string>> owners_;  // file's hash → candidates
};

}  // namespace

namespace {

// All checks that read the log once, from its first record to its last or to where it breaks off.
struct Checks {
  Problems problems;
  ChainCheck chain{problems};
  KeyCheck keys{problems};
  ArtifactCheck artifacts;
  State state;
  int64_t events = 0;

  void accept(const Event& event) {
    if (!chain.accept(event)) return;
    ++events;
    const Result<Payload> payload = decode_payload(event.payload_type, event.payload);
    if (!payload) {
      problems.add(
          fmt::format("event {} cannot be read: {}", event.sequence, payload.error().what));
      return;
    }
    if (const RunResumed* resumed = std::get_if<RunResumed>(&*payload)) note_loss(event, *resumed);
    keys.accept(event.sequence, *payload);
    artifacts.accept(event.sequence, *payload);
    apply(state, event, *payload);
  }

  // Going on behind a cut does not heal it.
  void note_loss(const Event& event, const RunResumed& resumed) {
    if (resumed.lost_events == 0) return;
    problems.add(fmt::format("event {} goes on behind a cut: {}", event.sequence, resumed.why));
  }

  void read(RowReader& reader) {
    std::vector<Event> rows;
    while (true) {
      const Result<size_t> count = reader.page(chain.last(), rows);
      if (!count) problems.add(count.error().what + ": nothing behind it can be read");
      if (!count || *count == 0) return;
      for (size_t i = 0; i < *count; ++i) {
        if (!chain.goes_on(rows[i])) return;
        accept(rows[i]);
      }
    }
  }
};

// A writer that is at work leaves a half-written frame for some microseconds: damage stays.
Result<WalTail> inspect_settled_wal(const fs::path& wal_file) {
  WalTail tail = TRY(inspect_wal(wal_file));
  for (int tries = 0; tail.lost_commits > 0 && tries < 3; ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    tail = TRY(inspect_wal(wal_file));
  }
  return tail;
}

}  // namespace

Result<VerifyReport> verify_run(const fs::path& run_folder) {
  const WalTail tail = TRY(inspect_settled_wal((run_folder / log_file).string() + "-wal"));
  const int64_t known = snapshot_events(run_folder);  // first: a writer may go on meanwhile
  OpenLog log = TRY(open_for_reading(run_folder));
  Checks checks;
  if (tail.lost_commits > 0) checks.problems.add(describe(tail));
  checks.read(log.reader);
  if (known > checks.chain.last()) {
    checks.problems.add(
        fmt::format("the snapshot knows {} events, the log has {}: its tail is gone", known,
                    checks.chain.last()));
  }
  checks.artifacts.finish(run_folder / artifacts_folder, checks.state, checks.problems);
  return VerifyReport{checks.events, checks.problems.take(), checks.chain.last_hash()};
}

}  // namespace marathon
