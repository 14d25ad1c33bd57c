// What an agent may do. A call that makes no sense gets a useful answer, never an abort. Inside of
// run/ only.
#pragma once

#include <string>

#include "run/driver.h"

namespace marathon {

struct ToolResult {
  bool ok = true;
  std::string text;
  FileHashes written;  // path → content hash; "" removed
};

// Redone after a crash, every tool gives the same: what it writes depends on the fold alone. An
// Error only when the run itself cannot go on.
Result<ToolResult> run_tool(Driver& driver, const ToolCall& call, std::stop_token stop);

}  // namespace marathon
