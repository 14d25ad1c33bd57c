// What figures mean: the rules by which a measurement becomes a verdict. Pure.
#pragma once

#include <optional>
#include <string>

#include "bench/measure.h"

namespace marathon {

// faster: the whole interval above 1 + noise. slower: below 1 - noise. same: neither.
VerdictKind kind_of_gain(const Interval& gain, double noise);
std::string gain_in_words(const Interval& gain, double noise, const std::string& than,
                          bool decided_early);

// What of its speed-up on the listed shapes a candidate must keep on the hidden ones that are
// timed: geometric means over the baseline. The sentence names no shape.
inline constexpr double kept_share = 0.85;
bool keeps_its_speed(double hidden, double listed);
std::string kept_in_words(double hidden, double listed);

// Why a measurement cannot be taken at its word: a failure in a timed window, clocks that disagree,
// work where nobody measures. No kind: nothing of that.
struct Judgement {
  std::optional<VerdictKind> kind;
  std::string reason;
};
Judgement judge_failures(const Measurement& measurement);

}  // namespace marathon
