#include "store/sqlite.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <cerrno>
#include <cstring>

#include "store/fault.h"

namespace marathon::store {

namespace fs = std::filesystem;

namespace {

constexpr int max_row_bytes = 4 << 20;  // a damaged row that claims more is refused, not allocated
constexpr int busy_timeout_ms = 5000;   // a reader that rebuilds the wal-index holds us up shortly

bool is_out_of_space(int error_number) { return error_number == ENOSPC || error_number == EDQUOT; }

Fault fault_of(int code, int error_number) {
  switch (code & 0xff) {
    case SQLITE_FULL:
      return Fault::no_space;
    case SQLITE_IOERR:
      if (code == SQLITE_IOERR_CORRUPTFS) return Fault::corrupt;
      return is_out_of_space(error_number) ? Fault::no_space : Fault::system;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL:
    case SQLITE_CONSTRAINT:  // the sequence number is taken: another process wrote
      return Fault::busy;
    case SQLITE_CANTOPEN:
      if (is_out_of_space(error_number)) return Fault::no_space;
      return error_number == ENOENT ? Fault::not_found : Fault::system;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_ERROR:  // our statements are right: the schema is not ours or is damaged
    case SQLITE_TOOBIG:
    case SQLITE_FORMAT:
    case SQLITE_SCHEMA:
    case SQLITE_MISMATCH:
      return Fault::corrupt;
    default:
      return Fault::system;
  }
}

tl::unexpected<Error> fail_sqlite(sqlite3* handle, int code, std::string_view doing) {
  const int error_number = handle ? sqlite3_system_errno(handle) : 0;
  const Fault fault = fault_of(code, error_number);
  std::string what =
      fmt::format("{}: {}", doing, handle ? sqlite3_errmsg(handle) : sqlite3_errstr(code));
  const bool is_file_trouble = (code & 0xff) == SQLITE_IOERR || (code & 0xff) == SQLITE_CANTOPEN;
  if (is_file_trouble && error_number != 0)
    what += fmt::format(" ({})", std::strerror(error_number));
  return fail(fault, what + fmt::format(" [SQLite {}]", code));
}

struct OpenArguments {
  std::string name;
  int flags;
  const char* vfs;
};

// A file name as SQLite's URI, for parameters that only a URI can carry.
std::string as_uri(const fs::path& file, std::string_view parameters) {
  std::string uri = "file:";
  for (const char c : file.string()) {
    if (c == '?' || c == '#' || c == '%') {
      uri += fmt::format("%{:02x}", static_cast<unsigned char>(c));
    } else {
      uri += c;
    }
  }
  return uri + std::string(parameters);
}

OpenArguments open_arguments(const fs::path& file, OpenMode mode) {
  constexpr int common = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
  switch (mode) {
    case OpenMode::create:
      return {file.string(), common | SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, fault_vfs()};
    case OpenMode::write:
      return {file.string(), common | SQLITE_OPEN_READWRITE, fault_vfs()};
    case OpenMode::read:
      return {file.string(), common | SQLITE_OPEN_READONLY, nullptr};
    case OpenMode::read_copy:
      return {file.string(), common | SQLITE_OPEN_READONLY, "unix-none"};
    case OpenMode::immutable:
      return {as_uri(file, "?immutable=1"), common | SQLITE_OPEN_READONLY | SQLITE_OPEN_URI,
              nullptr};
  }
  return {};
}

std::string settings(OpenMode mode) {
  // No memory map: an I/O error would be a SIGBUS instead of an error.
  std::string sql =
      "PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON; PRAGMA mmap_size=0;"
      "PRAGMA temp_store=MEMORY; PRAGMA wal_autocheckpoint=0;";
  switch (mode) {
    case OpenMode::create:
    case OpenMode::write:
      sql += "PRAGMA synchronous=FULL; PRAGMA journal_size_limit=16777216;";
      break;
    case OpenMode::read_copy:
      sql += "PRAGMA locking_mode=EXCLUSIVE;";  // keeps the wal-index on the heap
      break;
    case OpenMode::read:
    case OpenMode::immutable:
      break;
  }
  return sql;
}

bool is_writer(OpenMode mode) { return mode == OpenMode::create || mode == OpenMode::write; }

}  // namespace

Statement::Statement(Statement&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}

Statement& Statement::operator=(Statement&& other) noexcept {
  std::swap(handle_, other.handle_);
  return *this;
}

Statement::~Statement() { sqlite3_finalize(handle_); }

void Statement::bind(int index, int64_t value) { sqlite3_bind_int64(handle_, index, value); }

void Statement::bind(int index, std::string_view text) {
  // An empty view may have no address, which SQLite would take for NULL.
  sqlite3_bind_text64(handle_, index, text.empty() ? "" : text.data(), text.size(), SQLITE_STATIC,
                      SQLITE_UTF8);
}

Result<bool> Statement::step(std::string_view doing) {
  const int code = sqlite3_step(handle_);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  tl::unexpected<Error> error = fail_sqlite(sqlite3_db_handle(handle_), code, doing);
  sqlite3_reset(handle_);
  return error;
}

void Statement::reset() { sqlite3_reset(handle_); }

int64_t Statement::integer(int column) const { return sqlite3_column_int64(handle_, column); }

std::string_view Statement::text(int column) const {
  const unsigned char* bytes = sqlite3_column_text(handle_, column);
  const int size = sqlite3_column_bytes(handle_, column);
  return bytes ? std::string_view(reinterpret_cast<const char*>(bytes), static_cast<size_t>(size))
               : std::string_view();
}

Result<Database> Database::open(const fs::path& file, OpenMode mode) {
  const OpenArguments arguments = open_arguments(file, mode);
  sqlite3* handle = nullptr;
  const int code = sqlite3_open_v2(arguments.name.c_str(), &handle, arguments.flags, arguments.vfs);
  Database database(handle, new Wal);
  if (code != SQLITE_OK) return fail_sqlite(handle, code, "open " + file.string());
  sqlite3_limit(handle, SQLITE_LIMIT_LENGTH, max_row_bytes);
  sqlite3_busy_timeout(handle, busy_timeout_ms);
  sqlite3_db_config(handle, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  // SQLite 3.7.0 to 3.51.2 can corrupt a WAL when two connections checkpoint at once: only the
  // writer ever does.
  sqlite3_db_config(handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, is_writer(mode) ? 0 : 1, nullptr);
  TRY(database.run(settings(mode)));
  if (is_writer(mode)) {
    sqlite3_wal_hook(
        handle,
        [](void* wal, sqlite3*, const char*, int pages) {
          static_cast<Wal*>(wal)->pages = pages;
          return SQLITE_OK;
        },
        database.wal_);
  }
  return database;
}

Database::Database(Database&& other) noexcept
    : handle_(std::exchange(other.handle_, nullptr)), wal_(std::exchange(other.wal_, nullptr)) {}

Database::~Database() {
  sqlite3_close_v2(handle_);
  delete wal_;
}

Status Database::run(const std::string& sql) const {
  const int code = sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) return fail_sqlite(handle_, code, "log.db");
  return {};
}

Result<int64_t> Database::integer(const std::string& sql) const {
  Statement statement = TRY(prepare(sql));
  return TRY(statement.step("read log.db")) ? statement.integer(0) : 0;
}

Result<Statement> Database::prepare(std::string_view sql) const {
  sqlite3_stmt* handle = nullptr;
  const int code = sqlite3_prepare_v3(handle_, sql.data(), static_cast<int>(sql.size()),
                                      SQLITE_PREPARE_PERSISTENT, &handle, nullptr);
  if (code != SQLITE_OK) return fail_sqlite(handle_, code, "read log.db");
  return Statement(handle);
}

bool Database::in_transaction() const { return sqlite3_get_autocommit(handle_) == 0; }

Status Database::checkpoint(bool truncate) const {
  const int mode = truncate ? SQLITE_CHECKPOINT_TRUNCATE : SQLITE_CHECKPOINT_PASSIVE;
  const int code = sqlite3_wal_checkpoint_v2(handle_, nullptr, mode, nullptr, nullptr);
  if (code != SQLITE_OK) return fail_sqlite(handle_, code, "move log.db-wal into log.db");
  return {};
}

}  // namespace marathon::store
