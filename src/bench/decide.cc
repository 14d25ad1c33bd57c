#include "bench/decide.h"

#include <fmt/format.h>

namespace marathon {

namespace {

constexpr double suspicious_share = 0.5;  // of an arm's windows

bool is_most(int64_t count, int64_t of) {
  return of > 0 && static_cast<double>(count) > suspicious_share * static_cast<double>(of);
}

}  // namespace

VerdictKind kind_of_gain(const Interval& gain, double noise) {
  if (gain.low > 1 + noise) return VerdictKind::faster;
  return gain.high < 1 - noise ? VerdictKind::slower : VerdictKind::same;
}

std::string gain_in_words(const Interval& gain, double noise, const std::string& than,
                          bool decided_early) {
  const std::string figures =
      fmt::format("{:.3f} ({:.3f}–{:.3f})", gain.value, gain.low, gain.high);
  if (kind_of_gain(gain, noise) == VerdictKind::same) {
    return fmt::format("no difference from {} above the noise of {:.2f} %: gain {}", than,
                       100 * noise, figures);
  }
  return fmt::format("{} times the speed of {}{}", figures, than,
                     decided_early ? ", certain after a part of the plan" : "");
}

bool keeps_its_speed(double hidden, double listed) { return hidden >= kept_share * listed; }

std::string kept_in_words(double hidden, double listed) {
  const std::string figures = fmt::format(
      "on the hidden shapes that are timed too it has {:.3f} times the speed of the baseline, "
      "{:.0f} % "
      "of the {:.3f} times on the listed ones",
      hidden, 100 * hidden / listed, listed);
  if (keeps_its_speed(hidden, listed)) return figures;
  return fmt::format(
      "{}: it must keep {:.0f} %; make it fast at all shapes, not at those that are listed",
      figures, 100 * kept_share);
}

Judgement judge_failures(const Measurement& m) {
  if (m.failure) {
    return {m.failure->kind, fmt::format("{}, in a timed window: {}", m.failed_at, m.failure->why)};
  }
  if (!m.ambiguous.empty()) return {VerdictKind::ambiguous, m.ambiguous};
  const ArmCount& candidate = m.counts[static_cast<size_t>(Arm::candidate)];
  if (is_most(candidate.overworked, candidate.windows)) {
    return {VerdictKind::suspicious,
            "the two clocks disagree: the process used more CPU time than passed in its calls, so "
            "more than one thread worked, or code ran where nobody measures (a signal handler?)"};
  }
  if (m.slope.empty()) return {};
  if (const double slope = median(m.slope); is_flat(slope)) {
    return {VerdictKind::suspicious, fmt::format("time does not grow with the number of calls: "
                                                 "half of them took {:.0f} % of the time of all",
                                                 50 * slope)};
  }
  return {};
}

}  // namespace marathon
