// Figures as the sentences of a specialist.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "judge/profile.h"

namespace marathon {

namespace {

constexpr size_t most_sentences = 6;
// Vector moves to the stack above this share of a kernel's instructions mean that registers do not
// suffice (a frame that is saved and restored once stays far below it).
constexpr double many_spills = 0.05;

double share_of_floor(const ProfileFacts& f) { return f.time_us > 0 ? f.floor_us / f.time_us : 0; }
double gflops(const ProfileFacts& f) { return f.time_us > 0 ? f.flops / f.time_us * 1e-3 : 0; }
double gbytes_s(const ProfileFacts& f) { return f.time_us > 0 ? f.bytes / f.time_us * 1e-3 : 0; }

double flops_an_instruction(const ProfileFacts& f) {
  return f.instructions > 0 ? f.flops / f.instructions : 0;
}

double spill_share(const ProfileFacts& f) {
  return f.spills.instructions > 0 ? static_cast<double>(f.spills.vector_moves) /
                                         static_cast<double>(f.spills.instructions)
                                   : 0;
}

// Arithmetic intensity against the balance of the machine.
std::optional<std::string> roofline_sentence(const ProfileFacts& f) {
  if (f.flops <= 0 || f.bytes <= 0 || f.peak_gflops <= 0 || f.peak_gbytes_s <= 0 || f.time_us <= 0)
    return std::nullopt;
  return fmt::format(
      "{:.1f} GFLOP/s of {:.0f} and {:.1f} GB/s of {:.0f} measured; {:.2g} operations a byte where "
      "this core needs {:.2g} to be busy with arithmetic.",
      gflops(f), f.peak_gflops, gbytes_s(f), f.peak_gbytes_s, f.flops / f.bytes,
      f.peak_gflops / f.peak_gbytes_s);
}

std::optional<std::string> instruction_sentence(const ProfileFacts& f) {
  if (f.instructions <= 0) return std::nullopt;
  std::string text = fmt::format("{:.3g} instructions a call", f.instructions);
  if (f.cycles > 0) text += fmt::format(", {:.2f} a cycle", f.instructions / f.cycles);
  if (f.flops > 0) {
    const double each = flops_an_instruction(f);
    text += fmt::format(", {:.2g} useful operations each: {}", each,
                        each < 1   ? "scalar code or overhead"
                        : each < 4 ? "vectors with much overhead"
                                   : "well vectorised");
  }
  if (f.counted_by == "callgrind") text += " (callgrind, built without AVX-512)";
  return text + ".";
}

std::optional<std::string> memory_sentence(const ProfileFacts& f) {
  if (f.instructions <= 0) return std::nullopt;
  if (f.l1_miss_rate >= 0) {
    return fmt::format("{:.1f} % of its accesses to memory miss L1{}.", 100 * f.l1_miss_rate,
                       f.l1_miss_rate > 0.05 ? ": a smaller tile or another order would help" : "");
  }
  if (f.cache_misses > 0 && f.time_us > 0) {
    return fmt::format("{:.3g} misses of the last cache and {:.3g} mispredicted branches a call.",
                       f.cache_misses, f.branch_misses);
  }
  return std::nullopt;
}

std::optional<std::string> loop_sentence(const ProfileFacts& f) {
  const VectorRemarks& r = f.remarks;
  if (r.vectorised + r.missed == 0) return std::nullopt;
  std::string text = fmt::format("The compiler vectorised {} loops", r.vectorised);
  if (!r.loops_by_bytes.empty())
    text += fmt::format(" (up to {} bytes wide)", r.loops_by_bytes.rbegin()->first);
  text += fmt::format(" and left {} inner ones alone", r.missed);
  if (!r.missed_loops.empty()) {
    const auto& [place, why] = r.missed_loops.front();
    text += fmt::format(", the first at {}{}", place, why.empty() ? "" : " (" + why + ")");
  }
  return text + ".";
}

std::optional<std::string> register_sentence(const ProfileFacts& f) {
  if (spill_share(f) > many_spills) {
    return fmt::format(
        "{} of {} instructions move vector registers to or from the stack (frame of {} bytes): too "
        "many values are alive at once.",
        f.spills.vector_moves, f.spills.instructions, f.frame.bytes);
  }
  if (f.frame.bytes > int64_t{64} << 10)
    return fmt::format("{} keeps {} KB on the stack.", f.frame.function, f.frame.bytes >> 10);
  return std::nullopt;
}

std::optional<std::string> hot_sentence(const ProfileFacts& f) {
  if (f.hot_lines.empty()) return std::nullopt;
  std::string text = "Hottest lines: ";
  for (size_t i = 0; i < f.hot_lines.size(); ++i) text += (i ? "; " : "") + f.hot_lines[i];
  return text + ".";
}

std::optional<std::string> cold_sentence(const ProfileFacts& f) {
  if (f.time_us <= 0 || f.cold_us <= 1.3 * f.time_us) return std::nullopt;
  return fmt::format("With cold caches a call takes {:.1f} times as long.", f.cold_us / f.time_us);
}

}  // namespace

std::optional<std::string> floor_sentence(const ProfileFacts& f) {
  const double share = share_of_floor(f);
  if (share <= 0) return std::nullopt;
  const std::string verdict = share > 0.9 ? "it is at its limit; only less work makes it faster"
                              : share > 0.7
                                  ? "little is left"
                                  : fmt::format("up to {:.1f} times the speed is left", 1 / share);
  return fmt::format("At {} it runs at {:.0f} % of the {} floor: {}.", f.shape, 100 * share,
                     f.bound_by, verdict);
}

std::map<std::string, double> figures_of(const ProfileFacts& f) {
  std::map<std::string, double> figures = {
      {"time_us", f.time_us},
      {"floor_us", f.floor_us},
      {"fraction_of_floor", share_of_floor(f)},
      {"gflops", gflops(f)},
      {"gbytes_s", gbytes_s(f)},
      {"instructions_per_call", f.instructions},
      {"instructions_per_cycle", f.cycles > 0 ? f.instructions / f.cycles : 0},
      {"flops_per_instruction", flops_an_instruction(f)},
      {"cache_misses_per_call", f.cache_misses},
      {"branch_misses_per_call", f.branch_misses},
      {"l1_miss_rate", std::max(0.0, f.l1_miss_rate)},
      {"stack_frame_bytes", static_cast<double>(f.frame.bytes)},
      {"vector_moves_to_stack", static_cast<double>(f.spills.vector_moves)}};
  std::erase_if(figures, [](const auto& figure) { return figure.second <= 0; });
  if (f.remarks.vectorised + f.remarks.missed > 0) {
    figures["loops_vectorised"] = static_cast<double>(f.remarks.vectorised);
    figures["loops_not_vectorised"] = static_cast<double>(f.remarks.missed);
  }
  if (!f.remarks.loops_by_bytes.empty())
    figures["vector_bytes"] = static_cast<double>(f.remarks.loops_by_bytes.rbegin()->first);
  return figures;
}

std::vector<std::string> sentences_of(const ProfileFacts& facts) {
  std::vector<std::string> sentences;
  for (const auto& sentence :
       {floor_sentence(facts), instruction_sentence(facts), register_sentence(facts),
        memory_sentence(facts), hot_sentence(facts), loop_sentence(facts), roofline_sentence(facts),
        cold_sentence(facts)}) {
    if (sentence && sentences.size() < most_sentences) sentences.push_back(*sentence);
  }
  return sentences;
}

}  // namespace marathon
