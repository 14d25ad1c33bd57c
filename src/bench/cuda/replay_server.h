// The judge's questions about replays, answered by a Replayer: by the clean replayer's process, and by
// that of a trusted baseline.
#pragma once

#include "base/json.h"
#include "bench/cuda/replay.h"

namespace marathon {

// "run", "batch", "once" and "forget".
Result<Json> answer_of_replayer(Replayer& replayer, const std::string& what, const Json& body);

// The field "poisoned": by buffer set, what is overwritten before each replay.
std::vector<std::vector<AddressRange>> poisoned_of(const Json& body);

}  // namespace marathon
