#include "bench/problem_bank.h"

#include <utility>

#include "bench/parallel.h"

namespace marathon {

Status ProblemBank::grow_to(int64_t count) {
  const int64_t have = static_cast<int64_t>(solved_.size()), more = count - have;
  if (more <= 0) return {};
  std::vector<uint64_t> seeds;
  for (int64_t i = 0; i < more; ++i) {
    seeds.push_back(session_.random.next());
    solved_.push_back(std::make_unique<Solved>());
  }
  return in_parallel(more, [&](int64_t i) -> Status {
    *solved_[static_cast<size_t>(have + i)] =
        TRY(solve(session_, plan_, seeds[static_cast<size_t>(i)], keep_, false));
    return {};
  });
}

Status ProblemBank::start_over(int64_t will_need) {
  TRY(grow_to(will_need));
  used_ = 0;
  for (size_t i = solved_.size(); i > 1; --i)
    std::swap(solved_[i - 1], solved_[session_.random.below(i)]);
  return {};
}

Result<Window> ProblemBank::take(int32_t count) {
  const size_t first = used_;
  used_ += static_cast<size_t>(count);
  TRY(grow_to(static_cast<int64_t>(used_)));
  std::vector<const Solved*> taken;
  for (size_t i = first; i < used_; ++i) taken.push_back(solved_[i].get());
  return Window::make(plan_, taken);
}

}  // namespace marathon
