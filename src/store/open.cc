#include "store/open.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

namespace marathon::store {

namespace fs = std::filesystem;

namespace {

Result<OpenLog> open_as(const fs::path& file, OpenMode mode) {
  Database database = TRY(Database::open(file, mode));
  TRY(check_schema(database));
  RowReader reader = TRY(RowReader::make(database));
  TRY(reader.last_sequence());
  return OpenLog{std::move(database), std::move(reader)};
}

}  // namespace

Result<OpenLog> open_for_reading(const fs::path& run_folder) {
  const fs::path file = run_folder / log_file;
  std::error_code none;
  if (!fs::exists(file, none)) {
    return fail(Fault::not_found, fmt::format("there is no {}: the run never started. `marathon "
                                              "runs` lists those there are",
                                              file.string()));
  }
  Result<OpenLog> opened = open_as(file, OpenMode::read);
  // SQLite wants to create log.db-shm. Where it may not, nobody else writes here either.
  if (opened || ::faccessat(AT_FDCWD, run_folder.c_str(), W_OK, AT_EACCESS) == 0) return opened;
  const fs::path wal = file.string() + "-wal";
  const bool has_wal = fs::exists(wal, none) && fs::file_size(wal, none) > 0;
  return open_as(file, has_wal ? OpenMode::read_copy : OpenMode::immutable);
}

}  // namespace marathon::store
