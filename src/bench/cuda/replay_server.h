// The judge's questions about replays, answered by a Replayer: by the clean replayer's process, and by
// that of a trusted baseline.
#pragma once

#include "base/json.h"
#include "bench/cuda/replay.h"

namespace marathon {

// "run", "batch", "once" and "forget".
Result<Json> answer_of_replayer(Replayer& replayer, const std::string& what, const Json& body);

// The field "memory" of "add" and "plan".
Json to_json(const ReplayMemory& memory);
ReplayMemory replay_memory_of(const Json& body);

}  // namespace marathon
