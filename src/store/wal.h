// What SQLite will silently leave out of log.db-wal, found before SQLite does so.
//
// SQLite drops every frame from the first one that does not fit its checksum. That is right for an
// append that was cut short by a kill or a power cut: it never returned. It is silent as well when
// an older frame was damaged, and then durable events are gone. So the frames behind the first bad
// one are counted: a cut append leaves none that commits.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "base/result.h"

namespace marathon::store {

struct WalTail {
  int64_t good_bytes = 0;    // up to the last commit that SQLite will see
  int64_t unread_bytes = 0;  // of the same generation, behind it
  int64_t lost_commits = 0;  // commits among them: appends that cannot be read any more
};

// A file that is absent or empty is whole. Reads it once, in small pieces.
Result<WalTail> inspect_wal(const std::filesystem::path& wal_file);

// Empty when nothing is amiss, else one sentence.
std::string describe(const WalTail& tail);

// More than this cannot come from one cut append (or a failed one that was tried again): the writer
// refuses, since going on would overwrite what may still be rescued.
inline constexpr int64_t max_torn_commits = 2;

}  // namespace marathon::store
