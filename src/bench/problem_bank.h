// Solved problems of the listed shapes, for one measurement.
//
// The oracle costs more than the kernels that it checks, so a problem is used once in each restart.
// That is safe: a restart is a fresh process without a place to keep anything (nothing writable, no
// sockets, no IPC, fresh arenas), so inside of one process no input is ever seen twice. A second
// measurement of the same candidate gets a bank of its own.
#pragma once

#include <memory>
#include <vector>

#include "bench/session.h"

namespace marathon {

class ProblemBank {
 public:
  ProblemBank(Session& session, const ShapePlan& plan, Keep keep)
      : session_(session), plan_(plan), keep_(keep) {}

  // A new process: every problem may be used again, in another order.
  Status start_over(int64_t will_need);
  // Problems that this process has not seen.
  Result<Window> take(int32_t count);

 private:
  Status grow_to(int64_t count);

  Session& session_;
  const ShapePlan& plan_;
  Keep keep_;
  std::vector<std::unique_ptr<Solved>> solved_;
  size_t used_ = 0;
};

}  // namespace marathon
