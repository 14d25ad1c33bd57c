// Candidates that an arm offers: valid, untried, not condemned, each once. Inside of agent only.
#pragma once

#include <optional>
#include <unordered_set>
#include <vector>

#include "agent/past.h"

namespace marathon {

struct Candidate {
  Point point;
  Arm arm = Arm::fresh;
  std::optional<size_t> parent;  // observation that it started from
};

class Pool {
 public:
  Pool(const Space& space, const Past& past, Random& random)
      : space_(space), past_(past), random_(random) {}

  void fill(Arm arm);
  // For when the arms find nothing: walks every valid configuration.
  void fill_by_walking();

  const std::vector<Candidate>& candidates() const { return candidates_; }

 private:
  void steps();
  void jumps();
  void pairs();
  void crossovers();
  void fresh();
  size_t choose_parent();
  size_t change_one(Point& point);
  void offer(Point point, std::optional<size_t> kept, Arm arm, std::optional<size_t> parent);

  const Space& space_;
  const Past& past_;
  Random& random_;
  std::unordered_set<Point> seen_;
  std::vector<Candidate> candidates_;
};

}  // namespace marathon
