// SQLite behind two small owners. sqlite3.h itself stays in .cc files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/result.h"

struct sqlite3;
struct sqlite3_stmt;

namespace marathon::store {

// A prepared statement. Must not outlive its Database.
class Statement {
 public:
  Statement() = default;
  Statement(Statement&& other) noexcept;
  Statement& operator=(Statement&& other) noexcept;
  ~Statement();

  // Texts are bound without a copy: they must live until step() or reset().
  void bind(int index, int64_t value);
  void bind(int index, std::string_view text);
  Result<bool> step(std::string_view doing);  // true: a row is there
  void reset();

  int64_t integer(int column) const;
  std::string_view text(int column) const;  // valid until the next step() or reset()

 private:
  friend class Database;
  explicit Statement(sqlite3_stmt* handle) : handle_(handle) {}
  sqlite3_stmt* handle_ = nullptr;
};

enum class OpenMode {
  create,     // a new file, which becomes a log
  write,      // the one writer
  read,       // never checkpoints, never writes; may build the wal-index (log.db-shm)
  read_copy,  // for a folder that cannot be written: no locks and no log.db-shm, so only when the
              // ordinary way failed
  immutable,  // the same for a log without a WAL
};

class Database {
 public:
  static Result<Database> open(const std::filesystem::path& file, OpenMode mode);
  Database(Database&& other) noexcept;
  Database& operator=(Database&& other) = delete;
  ~Database();

  Status run(const std::string& sql) const;  // one or more statements without rows
  Result<int64_t> integer(const std::string& sql) const;
  Result<Statement> prepare(std::string_view sql) const;

  bool in_transaction() const;
  int64_t wal_pages() const { return wal_->pages; }  // after the last commit
  // Moves pages from the WAL into the file. Passive unless `truncate`: never waits for a reader.
  Status checkpoint(bool truncate) const;

 private:
  struct Wal {
    int64_t pages = 0;
  };
  Database(sqlite3* handle, Wal* wal) : handle_(handle), wal_(wal) {}
  sqlite3* handle_;
  Wal* wal_;  // on the heap: SQLite's hook keeps its address
};

}  // namespace marathon::store
