// The table of events: its schema, one record in, pages of records out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "core/event.h"
#include "store/sqlite.h"

namespace marathon::store {

inline constexpr const char* log_file = "log.db";

Status create_schema(const Database& database);
// Error invalid when it is no log at all or was written by a newer version, corrupt when table or
// triggers are not those that create_schema() makes.
Status check_schema(const Database& database);

class RowWriter {
 public:
  static Result<RowWriter> make(const Database& database);
  Status insert(const Event& event);

 private:
  explicit RowWriter(Statement insert) : insert_(std::move(insert)) {}
  Statement insert_;
};

class RowReader {
 public:
  static Result<RowReader> make(const Database& database);

  // The next records after `after_sequence`, at most 1000 and about 1 MB. No read transaction is
  // left open, however slowly the caller digests them. Fills `rows` from its front and returns how
  // many; what stands behind is left over from before and keeps its memory for the next page.
  Result<size_t> page(int64_t after_sequence, std::vector<Event>& rows);
  Result<std::optional<Event>> one(int64_t sequence);
  Result<int64_t> last_sequence();  // 0: none

 private:
  RowReader(Statement page, Statement one, Statement last)
      : page_(std::move(page)), one_(std::move(one)), last_(std::move(last)) {}
  Statement page_, one_, last_;
};

}  // namespace marathon::store
