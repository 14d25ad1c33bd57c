// What an agent may do. A call that makes no sense gets a useful answer, never an abort. Inside of
// run/ only.
#pragma once

#include <cstddef>
#include <string>

#include "base/json.h"
#include "run/driver.h"

namespace marathon {

inline constexpr size_t max_tool_result_bytes = 10'000;  // as JSON; an event holds 16 KB

struct ToolResult {
  bool ok = true;
  std::string text;
  FileHashes written;  // path → content hash; "" removed
};

ToolResult refuse(std::string why);

// Done again after a crash (`again`), every tool gives the same: what it writes depends on the fold
// alone, and what it had put on record before counts. An Error only when the run itself cannot go
// on.
Result<ToolResult> run_tool(Driver& driver, const ToolCall& call, bool again);

// file_tools.cc. The arguments are complete and of the right types.
Result<ToolResult> list_files_tool(Driver& driver);
Result<ToolResult> read_file_tool(Driver& driver, const Json& arguments);
Result<ToolResult> write_file_tool(Driver& driver, const Json& arguments);
Result<ToolResult> edit_file_tool(Driver& driver, const Json& arguments);

// answers.cc. Nothing of a hidden shape but that it failed.
std::string evaluation_answer(const Driver& driver, const Attempt& attempt, const Verdict& verdict,
                              bool from_log);
std::string history_answer(const Driver& driver, const std::string& category,
                           const std::string& verdict);

}  // namespace marathon
