// Which artifacts a run cannot do without.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "core/state.h"
#include "store/rows.h"

namespace marathon::store {

// Candidates whose files must stay: the start, every incumbent, the newest attempt, what is being
// evaluated, and (with `notes`) those that a note names by 6 or more digits of their hash.
std::set<std::string> needed_candidates(const State& state, bool notes);

// Words of 6 or more hex digits in the notes.
std::vector<std::string> hashes_in_notes(const State& state);

// The artifacts of those candidates, the files of the start and of the workspace as it is now, and
// artifacts that a note names. Reads the whole log.
Result<std::set<std::string>> needed_artifacts(const State& state, RowReader& reader);

}  // namespace marathon::store
