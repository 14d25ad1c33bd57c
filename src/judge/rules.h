// What the source and the binary may hold. A broken rule names the file and line, or the symbol.
// The sandbox and the measurement are the real protection; rules give an early and clear answer,
// and close what they cannot see (state that outlives a call). Inside of judge/ only.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/task.h"
#include "judge/build.h"

namespace marathon {

// The first broken rule in a sentence, or nothing.
std::optional<std::string> broken_source_rule(const Task& task,
                                              const std::vector<SourceFile>& editable);
Result<std::optional<std::string>> broken_binary_rule(const Task& task,
                                                      const std::filesystem::path& library);

}  // namespace marathon
