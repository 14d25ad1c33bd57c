// A State on disk, so that a long log opens without being folded from its start.
//
// It is never truth: it is used only when it was written by this version, its own checksum fits and
// the log holds the very record that it ends with; otherwise it is ignored. One line of JSON each
// for the head, the state without its attempts, and every 500 attempts: neither writing nor reading
// ever holds a JSON tree of the whole.
#pragma once

#include <filesystem>
#include <optional>

#include "base/result.h"
#include "core/state.h"
#include "store/rows.h"

namespace marathon::store {

// Not const, and yet the same afterwards: a large part steps aside instead of being copied.
Status save_snapshot(const std::filesystem::path& run_folder, State& state);

// None when there is no usable one, for whatever reason.
std::optional<State> load_snapshot(const std::filesystem::path& run_folder, RowReader& reader);

// How many events the snapshot was made of, or 0. More than the log has: its tail is gone.
int64_t snapshot_events(const std::filesystem::path& run_folder);

}  // namespace marathon::store
