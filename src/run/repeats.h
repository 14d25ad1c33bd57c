// Calls that an agent makes again and again with the same answer. Inside of run/ only.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

#include "core/event.h"

namespace marathon {

class Repeats {
 public:
  // Counts this one, and gives the answer with a remark behind it from the third time on. Looks at
  // the last 20 calls: an agent that goes round between two calls is caught too.
  std::string answer(const ToolCall& call, std::string result);

  // The same from the log, for a process that takes over: answers may carry the remark already.
  void recall(const ToolCall& call, std::string_view result);

 private:
  int64_t count(const ToolCall& call, std::string_view result);
  std::deque<std::string> last_;
};

}  // namespace marathon
