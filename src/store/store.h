// The store: a run's event log (SQLite) and its artifacts (content-addressed files). The one door.
//
// Only `run/` opens a Log for writing. Everything else opens a Reader. docs/event-log.md has the
// format, what each kind of damage costs, and the switches for tests.
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

inline constexpr int64_t max_inline_bytes = 16LL * 1024;  // larger payload parts are artifacts

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

// What opening found. A torn tail costs only the torn record, which counts as never written; the
// writer goes on behind it under the next number. Damage in the middle is an Error (corrupt).
struct OpenReport {
  int64_t events = 0;  // the last sequence
  bool from_snapshot = false;
  std::string torn;         // empty, or what was lost, in a sentence
  int64_t lost_events = 0;  // of them: how many the snapshot knew and the log has no more
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

  // Appends and returns the record. On no_space or an I/O error (system) nothing was appended and
  // the log stays usable: call again when there is room. A payload over max_inline_bytes is
  // refused: the caller moves its large parts to artifacts first.
  Result<Event> append(const Payload& payload, const std::string& causation_id = "");

  const OpenReport& report() const;
  const State& state() const;  // fold of everything appended so far

  // Writes `run_folder`/snapshot.json; may be deleted at any time. Done by itself every 50,000
  // events and, for more than 10,000 new ones, at close.
  Status write_snapshot() const;

 private:
  struct Impl;
  explicit Log(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Read-only. Never checkpoints, never holds a read transaction between two calls or while a visitor
// is at work. Works beside a live writer, after one that was killed, and in a folder that cannot be
// written. One thread at a time.
class Reader {
 public:
  static Result<Reader> open(const std::filesystem::path& run_folder);
  Reader(Reader&&) noexcept;
  Reader& operator=(Reader&&) = delete;
  ~Reader();

  // Calls `visit` for each event after `after_sequence`, in order, until it returns false. Torn
  // records are left out. Error corrupt at the first damage, when all before it was visited.
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
// Goes on behind damage to list all of it. An Error only when the log cannot be opened at all.
Result<VerifyReport> verify_run(const std::filesystem::path& run_folder);

// One JSON line an event, then nothing: a pure function of the log's bytes. `redacted` leaves out
// prompts, notes, texts of turns and tool results, compiler output, host names and everything that
// looks like a key (store/redact.h). Error corrupt at damage, when all before it was written.
Status export_run(const std::filesystem::path& run_folder, bool redacted,
                  const std::function<Status(std::string_view)>& write);

class Artifacts {
 public:
  // `quota_bytes` 0: none. Error no_space from put() once the quota is reached. Creates nothing:
  // the folder comes with the first put().
  static Result<Artifacts> open(const std::filesystem::path& run_folder, int64_t quota_bytes = 0);

  Result<std::string> put(std::string_view bytes);         // → hash; durable when it returns
  Result<std::string> get(const std::string& hash) const;  // checks the content against the hash
  bool has(const std::string& hash) const;
  std::filesystem::path path_of(
      const std::string& hash) const;  // artifacts/ab/abcd…; empty: no hash
  int64_t bytes() const;

 private:
  Artifacts(std::filesystem::path folder, int64_t quota, int64_t bytes);
  std::filesystem::path folder_;
  int64_t quota_bytes_, bytes_;
};

struct PruneReport {
  int64_t removed_files = 0, removed_bytes = 0, kept_files = 0, kept_bytes = 0;
};
// Removes artifacts that no event of note needs. Kept are those of the start, of every incumbent,
// of the newest attempt, of the evaluation at work and of the workspace, and what the notes name by
// 6 or more digits. The caller holds the RunLock, and appends ArtifactsPruned (with the figures of
// a dry run) *before* it removes: verify takes an absent artifact for lost unless the log says so.
Result<PruneReport> prune_artifacts(const std::filesystem::path& run_folder, const State& state,
                                    bool dry_run);

}  // namespace marathon
