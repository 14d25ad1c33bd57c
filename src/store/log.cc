// The writer.
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "store/durable.h"
#include "store/fault.h"
#include "store/fold.h"
#include "store/snapshot.h"
#include "store/store.h"
#include "store/wal.h"

namespace marathon {

namespace fs = std::filesystem;
using namespace store;  // NOLINT: the room's own inner namespace

namespace {

constexpr int64_t checkpoint_pages = 1000;     // 4 MB of WAL
constexpr int64_t snapshot_every = 50'000;     // events; bounds the refold after a kill
constexpr int64_t snapshot_at_close = 10'000;  // a shorter log folds faster than a file is written

// MARATHON_TEST_KILL_AFTER_APPEND=n: SIGKILL right after the n-th durable append of this process.
int64_t kill_after_append() {
  static const int64_t value = [] {
    const char* text = std::getenv("MARATHON_TEST_KILL_AFTER_APPEND");
    return text ? std::atoll(text) : 0LL;
  }();
  return value;
}

void count_append() {
  static std::atomic<int64_t> appends = 0;
  if (kill_after_append() > 0 && ++appends == kill_after_append()) ::raise(SIGKILL);
}

std::string no_room_advice(const fs::path& folder) {
  const Result<int64_t> room = free_bytes(folder);
  return fmt::format(
      "Nothing was appended and nothing is lost. Free some room on the disk of {} ({} free), for "
      "example with `marathon prune` of a run that nobody writes",
      folder.string(), room ? fmt::format("{} MB", *room >> 20) : "unknown");
}

// Every error of an append says what became of the event and what to do next.
tl::unexpected<Error> fail_append(const Error& cause, const fs::path& folder) {
  switch (cause.fault) {
    case Fault::no_space:
      return fail(Fault::no_space, cause.what + ". " + no_room_advice(folder));
    case Fault::busy:
      return fail(Fault::busy, cause.what +
                                   ". Another process writes this log, or holds it: only one "
                                   "marathon may. Stop the other one, then resume");
    case Fault::corrupt:
      return fail(Fault::corrupt, cause.what + ". " + corrupt_advice());
    case Fault::invalid:
    case Fault::not_found:
    case Fault::retry:
    case Fault::cancelled:
    case Fault::timeout:
    case Fault::system:
      break;
  }
  return fail(Fault::system, cause.what +
                                 ". Nothing was appended and nothing is lost. Look at the "
                                 "disk of " +
                                 folder.string() + " (dmesg), then try again");
}

tl::unexpected<Error> fail_no_log(const fs::path& file) {
  return fail(Fault::not_found,
              fmt::format("there is no {}: the run never started. Start a new one with: marathon "
                          "run TASK",
                          file.string()));
}

Status create_file(const fs::path& temp) {
  const Database database = TRY(Database::open(temp, OpenMode::create));
  // Before the first table, so that not even an empty log is ever in another mode.
  TRY(database.run("PRAGMA journal_mode=WAL"));
  TRY(create_schema(database));
  return database.checkpoint(true);
}

std::string what_was_lost(const WalTail& tail, const Chain& chain, int64_t snapshot_events) {
  std::vector<std::string> all;
  if (std::string text = describe(tail); !text.empty()) all.push_back(std::move(text));
  if (std::string text = describe_torn(chain); !text.empty()) all.push_back(std::move(text));
  if (snapshot_events > chain.last_sequence()) {
    all.push_back(fmt::format("the snapshot knows {} events, the log has {}: its tail is gone",
                              snapshot_events, chain.last_sequence()));
  }
  return fmt::format("{}", fmt::join(all, "; "));
}

void remove_log(const fs::path& file) {
  for (const char* suffix : {"", "-wal", "-shm"}) ::unlink((file.string() + suffix).c_str());
}

}  // namespace

struct Log::Impl {
  Impl(fs::path run_folder, std::string run_name, Database db, RowWriter row_writer)
      : folder(std::move(run_folder)),
        run(std::move(run_name)),
        database(std::move(db)),
        writer(std::move(row_writer)) {}

  fs::path folder;
  std::string run;
  Database database;
  RowWriter writer;
  State state;
  OpenReport report;
  int64_t last_sequence = 0;  // torn records included: no number is used twice
  int64_t snapshot_events = 0;

  Event make_event(const Payload& payload, std::string text, const std::string& causation_id) const;
  Status insert(const Event& event);
  void tidy();
};

Log::Log(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Log::Log(Log&&) noexcept = default;

Log::~Log() {
  if (!impl_) return;
  // Neither is needed for anything but a faster start: their errors are nobody's concern.
  if (impl_->state.events - impl_->snapshot_events > snapshot_at_close)
    (void)save_snapshot(impl_->folder, impl_->state);
  (void)impl_->database.checkpoint(true);
}

Result<Log> Log::create(const fs::path& run_folder, const std::string& run) {
  TRY(use_fault_switch());
  const fs::path file = run_folder / log_file;
  TRY(make_folders(run_folder));
  std::error_code none;
  if (fs::exists(file, none)) {
    return fail(Fault::invalid, fmt::format("{} exists already: choose another name for the run, "
                                            "or go on with: marathon resume {}",
                                            file.string(), run));
  }
  // Made under another name: a log that was killed half-made is no log at all.
  const fs::path temp = file.string() + ".new";
  remove_log(temp);
  Status made = create_file(temp);
  if (made && ::rename(temp.c_str(), file.c_str()) != 0)
    made = fail_errno("rename to " + file.string(), errno);
  if (made) made = sync_folder(run_folder);
  if (!made) {
    remove_log(temp);
    remove_log(file);
    return fail_append(made.error(), run_folder);
  }
  Log log = TRY(open(run_folder));
  log.impl_->run = run;
  return log;
}

Result<Log> Log::open(const fs::path& run_folder) {
  TRY(use_fault_switch());
  const fs::path file = run_folder / log_file;
  std::error_code none;
  if (!fs::exists(file, none)) return fail_no_log(file);
  // Before SQLite opens it, which drops what does not fit.
  const WalTail tail = TRY(inspect_wal(file.string() + "-wal"));
  if (tail.lost_commits > max_torn_commits)
    return fail(Fault::corrupt, describe(tail) + ". " + corrupt_advice());
  Database database = TRY(Database::open(file, OpenMode::write));
  TRY(check_schema(database));
  RowReader reader = TRY(RowReader::make(database));
  Folded folded = TRY(fold_log(run_folder, reader, true));
  const Result<std::optional<Event>> first = reader.one(1);
  std::string run = first && *first ? (*first)->stream_id : run_folder.filename().string();
  RowWriter writer = TRY(RowWriter::make(database));
  std::unique_ptr<Impl> impl =
      std::make_unique<Impl>(run_folder, std::move(run), std::move(database), std::move(writer));
  impl->report.events = folded.chain.last_sequence();
  impl->report.from_snapshot = folded.snapshot_events > 0;
  const int64_t known = snapshot_events(run_folder);
  impl->report.torn = what_was_lost(tail, folded.chain, known);
  impl->report.lost_events = std::max<int64_t>(known - folded.chain.last_sequence(), 0);
  impl->last_sequence = folded.chain.last_sequence();
  impl->snapshot_events = folded.snapshot_events;
  impl->state = std::move(folded.state);
  return Log(std::move(impl));
}

Event Log::Impl::make_event(const Payload& payload, std::string text,
                            const std::string& causation_id) const {
  Event event;
  event.sequence = last_sequence + 1;
  event.id = fmt::format("{}/{}", run, event.sequence);
  event.stream_id = run;
  event.recorded_at_us = wall_time_us();
  event.record_type = record_type(payload);
  event.causation_id = causation_id;
  event.payload_type = payload_type(payload);
  event.payload = std::move(text);
  event.previous_hash = state.last_hash;
  event.hash = chain_hash(event);
  return event;
}

Status Log::Impl::insert(const Event& event) {
  Status written = writer.insert(event);
  // SQLite rolls a failed statement back by itself; after some I/O errors only when asked.
  if (!written && database.in_transaction()) (void)database.run("ROLLBACK");
  return written;
}

// Housekeeping after an append. The event is durable already: an error here is nobody's concern,
// the next append tries again.
void Log::Impl::tidy() {
  if (database.wal_pages() >= checkpoint_pages) (void)database.checkpoint(false);
  if (state.events - snapshot_events >= snapshot_every) {
    (void)save_snapshot(folder, state);
    snapshot_events = state.events;
  }
}

Result<Event> Log::append(const Payload& payload, const std::string& causation_id) {
  std::string text = encode_payload(payload);
  const std::string type(payload_type(payload));
  if (static_cast<int64_t>(text.size()) > max_inline_bytes) {
    return fail(Fault::invalid,
                fmt::format("{} has {} bytes, an event holds at most {}: put its large parts into "
                            "artifacts and name their hashes",
                            type, text.size(), max_inline_bytes));
  }
  // What cannot be read back must not get into the log, and the state must be what a later fold of
  // these very bytes gives.
  const Result<Payload> decoded = decode_payload(type, text);
  if (!decoded) return fail(Fault::invalid, type + " cannot be read back: " + decoded.error().what);
  if (std::holds_alternative<Unknown>(*decoded) && !parse_json(text))
    return fail(Fault::invalid, type + " is not JSON");
  Event event = impl_->make_event(payload, std::move(text), causation_id);
  if (const Status written = impl_->insert(event); !written)
    return fail_append(written.error(), impl_->folder);
  count_append();
  impl_->last_sequence = event.sequence;
  apply(impl_->state, event, *decoded);
  impl_->tidy();
  return event;
}

const OpenReport& Log::report() const { return impl_->report; }
const State& Log::state() const { return impl_->state; }

Status Log::write_snapshot() const {
  TRY(save_snapshot(impl_->folder, impl_->state));
  impl_->snapshot_events = impl_->state.events;
  return {};
}

}  // namespace marathon
