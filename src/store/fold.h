// The state of a log that is open: snapshot if there is one, then every record behind it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "core/state.h"
#include "store/chain.h"
#include "store/rows.h"

namespace marathon::store {

struct Folded {
  State state;
  Chain chain;
  int64_t snapshot_events = 0;  // how many came from the snapshot
};
Result<Folded> fold_log(const std::filesystem::path& run_folder, RowReader& reader,
                        bool use_snapshot);

// "event 57 does not fit its hash …" for each torn record; empty when there is none.
std::string describe_torn(const Chain& chain);

}  // namespace marathon::store
