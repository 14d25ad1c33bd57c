#include "store/rows.h"

#include <fmt/format.h>

namespace marathon::store {

namespace {

constexpr int64_t application_id = 0x4d617261;  // "Mara"
constexpr int64_t format_version = 1;           // user_version; DO NOT CHANGE what 1 means
constexpr size_t page_rows = 1000;
constexpr size_t page_bytes = 1 << 20;

// Compared byte for byte when a log is opened: a changed table or a missing trigger is damage.
constexpr const char* table_sql =
    "CREATE TABLE events("
    "sequence INTEGER PRIMARY KEY CHECK(sequence > 0),"
    "schema_version INTEGER NOT NULL,"
    "id TEXT NOT NULL,"
    "stream_kind TEXT NOT NULL,"
    "stream_id TEXT NOT NULL,"
    "recorded_at_us INTEGER NOT NULL,"
    "record_type TEXT NOT NULL,"
    "durability TEXT NOT NULL,"
    "causation_id TEXT NOT NULL,"
    "payload_type TEXT NOT NULL,"
    "payload_schema_version INTEGER NOT NULL,"
    "payload TEXT NOT NULL,"
    "previous_hash TEXT NOT NULL,"
    "hash TEXT NOT NULL) STRICT";
constexpr const char* no_update_sql =
    "CREATE TRIGGER events_no_update BEFORE UPDATE ON events BEGIN "
    "SELECT RAISE(ABORT, 'events are for ever: no UPDATE'); END";
constexpr const char* no_delete_sql =
    "CREATE TRIGGER events_no_delete BEFORE DELETE ON events BEGIN "
    "SELECT RAISE(ABORT, 'events are for ever: no DELETE'); END";

constexpr const char* columns =
    "sequence,schema_version,id,stream_kind,stream_id,recorded_at_us,record_type,durability,"
    "causation_id,payload_type,payload_schema_version,payload,previous_hash,hash";

std::optional<RecordType> record_type_from(std::string_view name) {
  for (const RecordType type :
       {RecordType::event, RecordType::status, RecordType::reconciliation}) {
    if (name == to_string(type)) return type;
  }
  return std::nullopt;
}

void read_row(const Statement& row, Event& event) {
  event.sequence = row.integer(0);
  event.schema_version = row.integer(1);
  event.id = row.text(2);
  event.stream_kind = row.text(3);
  event.stream_id = row.text(4);
  event.recorded_at_us = row.integer(5);
  const std::optional<RecordType> type = record_type_from(row.text(6));
  event.record_type = type.value_or(RecordType::event);
  event.durability = row.text(7);
  event.causation_id = row.text(8);
  event.payload_type = row.text(9);
  event.payload_schema_version = row.integer(10);
  event.payload = row.text(11);
  event.previous_hash = row.text(12);
  event.hash = type ? row.text(13) : "";  // a type that nobody wrote: fits no hash
}

Status check_statement(const Database& database, const char* name, const char* sql) {
  Statement statement = TRY(database.prepare("SELECT sql FROM sqlite_schema WHERE name=?"));
  statement.bind(1, std::string_view(name));
  if (!TRY(statement.step("read the schema of log.db")) || statement.text(0) != sql) {
    return fail(Fault::corrupt, fmt::format("log.db: '{}' is missing or was changed", name));
  }
  return {};
}

}  // namespace

Status create_schema(const Database& database) {
  return database.run(
      fmt::format("BEGIN; {}; {}; {}; PRAGMA application_id={}; "
                  "PRAGMA user_version={}; COMMIT;",
                  table_sql, no_update_sql, no_delete_sql, application_id, format_version));
}

Status check_schema(const Database& database) {
  if (TRY(database.integer("PRAGMA application_id")) != application_id)
    return fail(Fault::invalid, "log.db is not an event log of Marathon");
  const int64_t version = TRY(database.integer("PRAGMA user_version"));
  if (version != format_version) {
    return fail(Fault::invalid,
                fmt::format("log.db has format {}, this version of marathon reads format {}: use "
                            "the version that wrote it",
                            version, format_version));
  }
  if (TRY(database.integer("SELECT count(*) FROM sqlite_schema")) != 3)
    return fail(Fault::corrupt, "log.db holds tables or triggers that are not ours");
  TRY(check_statement(database, "events", table_sql));
  TRY(check_statement(database, "events_no_update", no_update_sql));
  return check_statement(database, "events_no_delete", no_delete_sql);
}

Result<RowWriter> RowWriter::make(const Database& database) {
  return RowWriter(TRY(database.prepare(
      fmt::format("INSERT INTO events({}) VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?)", columns))));
}

Status RowWriter::insert(const Event& event) {
  insert_.bind(1, event.sequence);
  insert_.bind(2, event.schema_version);
  insert_.bind(3, event.id);
  insert_.bind(4, event.stream_kind);
  insert_.bind(5, event.stream_id);
  insert_.bind(6, event.recorded_at_us);
  insert_.bind(7, to_string(event.record_type));
  insert_.bind(8, event.durability);
  insert_.bind(9, event.causation_id);
  insert_.bind(10, event.payload_type);
  insert_.bind(11, event.payload_schema_version);
  insert_.bind(12, event.payload);
  insert_.bind(13, event.previous_hash);
  insert_.bind(14, event.hash);
  TRY(insert_.step(fmt::format("write event {}", event.sequence)));
  insert_.reset();
  return {};
}

Result<RowReader> RowReader::make(const Database& database) {
  Statement page = TRY(database.prepare(fmt::format(
      "SELECT {} FROM events WHERE sequence>? ORDER BY sequence LIMIT {}", columns, page_rows)));
  Statement one =
      TRY(database.prepare(fmt::format("SELECT {} FROM events WHERE sequence=?", columns)));
  Statement last = TRY(database.prepare("SELECT max(sequence) FROM events"));
  return RowReader(std::move(page), std::move(one), std::move(last));
}

Result<size_t> RowReader::page(int64_t after_sequence, std::vector<Event>& rows) {
  page_.bind(1, after_sequence);
  size_t count = 0, bytes = 0;
  while (bytes < page_bytes && TRY(page_.step("read events"))) {
    if (count == rows.size()) rows.emplace_back();
    read_row(page_, rows[count]);
    bytes += rows[count].payload.size();
    ++count;
  }
  page_.reset();
  return count;
}

Result<std::optional<Event>> RowReader::one(int64_t sequence) {
  one_.bind(1, sequence);
  std::optional<Event> found;
  if (TRY(one_.step("read an event"))) read_row(one_, found.emplace());
  one_.reset();
  return found;
}

Result<int64_t> RowReader::last_sequence() {
  const bool any = TRY(last_.step("read the last event"));
  const int64_t last = any ? last_.integer(0) : 0;
  last_.reset();
  return last;
}

}  // namespace marathon::store
