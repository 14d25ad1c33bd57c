// The store: a run's event log (SQLite) and its artifacts (content-addressed files). The one door.
//
// Only `run/` opens a Log for writing. Everything else opens a Reader.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "core/event.h"
#include "core/state.h"

namespace marathon {

inline constexpr int64_t max_inline_bytes = 16 * 1024;  // larger payload parts are artifacts

// Exclusive right to write a run, held by flock until the object dies or the process does.
class RunLock {
 public:
  // Error busy: "run X is being written by marathon (pid 123 on host, since …)": names the holder.
  static Result<RunLock> acquire(const std::filesystem::path& run_folder);
  RunLock(RunLock&&) noexcept;
  RunLock& operator=(RunLock&&) = delete;
  ~RunLock();

 private:
  explicit RunLock(int fd) : fd_(fd) {}
  int fd_;
};

// What opening found. A torn tail costs only the torn record.
struct OpenReport {
  int64_t events = 0;
  bool from_snapshot = false;
  std::string torn;  // empty, or what was lost, in a sentence
};

// The writer. Appends are durable when they return (WAL, synchronous=FULL).
class Log {
 public:
  // Creates `run_folder`/log.db; error invalid when there is one already.
  static Result<Log> create(const std::filesystem::path& run_folder, const std::string& run);
  static Result<Log> open(const std::filesystem::path& run_folder);
  Log(Log&&) noexcept;
  Log& operator=(Log&&) = delete;
  ~Log();

  // Appends and returns the record. On no_space or an I/O error nothing was appended and the log
  // stays usable: call again when there is room. A payload over max_inline_bytes is refused: the
  // caller moves its large parts to artifacts first.
  Result<Event> append(const Payload& payload, const std::string& causation_id = "");

  const OpenReport& report() const;
  const State& state() const;  // fold of everything appended so far

  // Writes `run_folder`/snapshot.json; may be deleted at any time.
  Status write_snapshot() const;

 private:
  struct Impl;
  explicit Log(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Read-only. Never checkpoints, never holds a read transaction between two calls.
class Reader {
 public:
  static Result<Reader> open(const std::filesystem::path& run_folder);
  Reader(Reader&&) noexcept;
  Reader& operator=(Reader&&) = delete;
  ~Reader();

  // Calls `visit` for each event after `after_sequence`, in order, until it returns false.
  Status each(int64_t after_sequence, const std::function<bool(const Event&)>& visit) const;
  Result<Event> at(int64_t sequence) const;
  Result<State> fold(bool use_snapshot = true) const;
  Result<int64_t> last_sequence() const;

 private:
  struct Impl;
  explicit Reader(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

struct VerifyReport {
  int64_t events = 0;
  std::vector<std::string> problems;  // empty: nothing was cut out or changed
  std::string last_hash;              // write it down elsewhere to prove that no tail was cut
};
// Chain, sequence gaps, duplicate idempotency keys, artifacts that events name and their content.
Result<VerifyReport> verify_run(const std::filesystem::path& run_folder);

// One JSON line an event, then nothing: a pure function of the log's bytes. `redacted` leaves out
// prompts, texts of turns and tool results, host names and everything that looks like a key.
Status export_run(const std::filesystem::path& run_folder, bool redacted,
                  const std::function<Status(std::string_view)>& write);

class Artifacts {
 public:
  // `quota_bytes` 0: none. Error no_space from put() once the quota is reached.
  static Result<Artifacts> open(const std::filesystem::path& run_folder, int64_t quota_bytes = 0);

  Result<std::string> put(std::string_view bytes);         // → hash; durable when it returns
  Result<std::string> get(const std::string& hash) const;  // checks the content against the hash
  bool has(const std::string& hash) const;
  std::filesystem::path path_of(const std::string& hash) const;
  int64_t bytes() const;

 private:
  Artifacts(std::filesystem::path folder, int64_t quota, int64_t bytes);
  std::filesystem::path folder_;
  int64_t quota_bytes_, bytes_;
};

struct PruneReport {
  int64_t removed_files = 0, removed_bytes = 0, kept_files = 0, kept_bytes = 0;
};
// Removes artifacts that no event of note needs: kept are those of the start, of every incumbent
// and of the newest attempt, and what the notes name. The caller holds the RunLock.
Result<PruneReport> prune_artifacts(const std::filesystem::path& run_folder, const State& state,
                                    bool dry_run);

}  // namespace marathon
