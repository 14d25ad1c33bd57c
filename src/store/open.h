// Opens a log for reading, whatever state its folder is in.
#pragma once

#include <filesystem>

#include "base/result.h"
#include "store/rows.h"
#include "store/sqlite.h"

namespace marathon::store {

struct OpenLog {
  Database database;
  RowReader reader;
};

// Beside a live writer, after one that was killed (its WAL is read in place), and in a folder that
// cannot be written.
Result<OpenLog> open_for_reading(const std::filesystem::path& run_folder);

}  // namespace marathon::store
