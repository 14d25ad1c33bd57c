// What the source and the binary may hold. A broken rule names the file and line, or the symbol.
// The sandbox and the measurement are the real protection; rules give an early and clear answer,
// and close what those cannot see (state that outlives a call). Inside of judge/ only.
#pragma once

#include <filesystem>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "core/task.h"
#include "judge/build.h"

namespace marathon {

// The first broken rule in a sentence, or nothing.
Result<std::optional<std::string>> broken_source_rule(const Task& task,
                                                      const std::vector<SourceFile>& editable);

// What a candidate for a GPU includes or imports, and names it uses that lead elsewhere: file, line
// and what stands there. `all`: the candidate's files and the task's frozen ones.
std::optional<std::string> broken_import_rule(Language language,
                                              const std::vector<SourceFile>& editable,
                                              const std::vector<SourceFile>& all);
std::optional<std::string> broken_include_rule(const std::vector<SourceFile>& editable,
                                               const std::vector<SourceFile>& all);
std::optional<std::string> broken_python_rule(const std::vector<SourceFile>& editable,
                                              const std::vector<SourceFile>& all);

struct BinaryRules {
  std::vector<std::string> allowed_libraries;  // beyond those of the compiler
  bool fast_math = false;  // the flags bring a constructor of the compiler's own
};
BinaryRules binary_rules(const Task& task, const BuildJob& job);

// From the bytes alone.
std::optional<std::string> broken_binary_rule(const BinaryRules& rules, std::string_view bytes);
// And, where its bytes may hold one, system calls and clocks in its instructions (by objdump).
Result<std::optional<std::string>> broken_library_rule(const BinaryRules& rules,
                                                       const BuildOutcome& built,
                                                       bool unsafe_no_sandbox,
                                                       std::stop_token stop);

// Of a CUDA build: what its library links and exports, and what its cubins hold (variables in
// global memory, launches from the device, one name for two kernels). Its host code is not looked
// at: it runs in the jail and is gone before anything counts.
Result<std::optional<std::string>> broken_cuda_rule(const BinaryRules& rules,
                                                    const BuildOutcome& built);
std::optional<std::string> broken_host_library_rule(const BinaryRules& rules,
                                                    std::string_view bytes);

// "it holds the instruction 'syscall' in marathon_run()", from objdump's listing.
std::optional<std::string> forbidden_instruction(std::string_view listing);
// True when the bytes of a forbidden instruction occur anywhere: objdump must then say whether
// they are one.
bool may_hold_forbidden_instruction(std::string_view code);

}  // namespace marathon
