// When a run ends, and with which ending. Pure. Inside of run/ only.
#pragma once

#include <optional>

#include "core/state.h"

namespace marathon {

// `at_limit`: the incumbent is within 10 % of the floor on every listed shape.
std::optional<RunEnded> ending_due(const State& state, bool at_limit, double active_s);

// Within 10 % of the floor on every listed shape.
bool is_at_limit(const Verdict& verdict);

}  // namespace marathon
