// What a history of trials says, in points: who is best, what each kind of neighbourhood gained,
// which values always failed. Inside of agent only.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "agent/agent.h"
#include "agent/space.h"
#include "agent/surrogate.h"

namespace marathon {

// A kind of neighbourhood. The bandit chooses among them.
enum class Arm : uint8_t {
  step,       // one ordered parameter to a neighbouring value
  jump,       // one parameter to any other value
  pair,       // two parameters at once
  crossover,  // a mixture of two good ones
  fresh,      // somewhere else
};
inline constexpr size_t arm_count = 5;
std::string_view to_string(Arm arm);

size_t distance(const Point& a, const Point& b);  // parameters that differ

struct Past {
  std::vector<Observation> observations;
  std::vector<int64_t> numbers;  // of their attempts, for people
  std::unordered_set<Point> tried;
  std::vector<size_t> elites;                      // the four best that did not fail, best first
  std::vector<std::vector<bool>> condemned;        // values that failed every time, by parameter
  std::array<double, arm_count> gained{}, lost{};  // trials of each arm; the old count less
  int64_t since_gain = 0;

  const Observation& best() const { return observations[elites.front()]; }
  bool is_condemned(const Point& point) const;
};

// Which arm a trial belongs to is read off from what it changed against the elites of its time: a
// search that is asked anew after a crash needs no other memory, and a person's trial counts too.
Past recall(const Space& space, const std::vector<Trial>& history);

}  // namespace marathon
