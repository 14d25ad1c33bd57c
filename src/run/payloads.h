// What fits into an event: an event holds 16 KB, so what is larger lies beside the log and the
// event names its hash. Inside of run/ only.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "agent/agent.h"
#include "run/recorder.h"

namespace marathon {

// The text, cut at a whole code point so that it takes at most `max_bytes` inside of JSON.
std::string cut_for_json(std::string_view text, size_t max_bytes);

// `result_folder`: where the judge left build.txt, profile.txt and sanitize.txt, if it did.
Result<Verdict> fit_verdict(Verdict verdict, const std::filesystem::path& result_folder,
                            Recorder& recorder);

// Every call gets an id that is its own in the turn.
Result<TurnFinished> fit_turn(Turn turn, int64_t number, Recorder& recorder);

// Arguments as the agent gave them, from beside the log where they lie there.
Result<std::string> arguments_of(const ToolCall& call, const Artifacts& artifacts);
bool are_beside(const ToolCall& call);

}  // namespace marathon
