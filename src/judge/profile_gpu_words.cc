// Figures of a GPU's kernels as the sentences of a specialist.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "judge/profile_gpu.h"

namespace marathon {

namespace {

constexpr const char *time_ns = "gpu__time_duration.sum",
                     *sm = "sm__throughput.avg.pct_of_peak_sustained_elapsed",
                     *dram = "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
                     *l2 = "lts__throughput.avg.pct_of_peak_sustained_elapsed",
                     *issue = "smsp__issue_active.avg.pct_of_peak_sustained_active",
                     *possible_warps = "sm__maximum_warps_per_active_cycle_pct",
                     *active_warps = "sm__warps_active.avg.pct_of_peak_sustained_active",
                     *waves = "launch__waves_per_multiprocessor",
                     *registers = "launch__registers_per_thread",
                     *static_shared = "launch__shared_mem_per_block_static",
                     *dynamic_shared = "launch__shared_mem_per_block_dynamic",
                     *l2_hits = "lts__t_sector_hit_rate.pct", *l2_bytes = "lts__t_bytes.sum";
// A unit that is busier than this bounds the kernel; below it, waiting does.
constexpr double busy_pct = 60, much_traffic = 1.3, many_conflicts = 0.1, sector_bytes = 32;
constexpr size_t named_kernels = 4, named_stalls = 3, max_shown_name = 48;

double sum_of(const std::vector<NcuKernel>& kernels, const char* metric) {
  return std::accumulate(
      kernels.begin(), kernels.end(), 0.0,
      [&](double sum, const NcuKernel& kernel) { return sum + kernel.at(metric); });
}

double dram_bytes(const std::vector<NcuKernel>& kernels) {
  return sum_of(kernels, "dram__bytes_read.sum") + sum_of(kernels, "dram__bytes_write.sum");
}

double spilled_bytes(const std::vector<NcuKernel>& kernels) {
  return sector_bytes * (sum_of(kernels, "l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum") +
                         sum_of(kernels, "l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum"));
}

// Share of the passes through shared memory that are there for conflicts alone.
double conflict_share(const NcuKernel& kernel) {
  double conflicts = 0, passes = 0;
  for (const char* way : {"ld", "st"}) {
    conflicts +=
        kernel.at(fmt::format("l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{}.sum", way));
    passes += kernel.at(fmt::format("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{}.sum", way));
  }
  return passes > 0 ? conflicts / passes : 0;
}

double tensor_pct(const NcuKernel& kernel) {
  return std::max(
      kernel.at("sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active"),
      kernel.at("sm__pipe_tensor_op_hmma_cycles_active.avg.pct_of_peak_sustained_active"));
}

// Without what its author's compiler adds: parameters, and the tail of a long name.
std::string shown(const NcuKernel& kernel) {
  const std::string name = kernel.name.substr(0, kernel.name.find('('));
  return name.size() > max_shown_name ? name.substr(0, max_shown_name) + "…" : name;
}

std::string amount(double bytes) {
  return bytes >= 1e9   ? fmt::format("{:.2f} GB", 1e-9 * bytes)
         : bytes >= 1e6 ? fmt::format("{:.1f} MB", 1e-6 * bytes)
                        : fmt::format("{:.1f} KB", 1e-3 * bytes);
}

struct Stall {
  std::string why;
  double cycles = 0;
};

std::vector<Stall> stalls_of(const NcuKernel& kernel) {
  constexpr std::string_view begin = "smsp__average_warps_issue_stalled_",
                             end = "_per_issue_active.ratio", not_issued = "_not_issued";
  std::vector<Stall> stalls;
  for (const auto& [metric, value] : kernel.values) {
    if (!metric.starts_with(begin) || !metric.ends_with(end) ||
        metric.find(not_issued) != std::string::npos)
      continue;
    std::string why = metric.substr(begin.size(), metric.size() - begin.size() - end.size());
    if (why != "selected") stalls.push_back({std::move(why), value});
  }
  std::sort(stalls.begin(), stalls.end(),
            [](const Stall& a, const Stall& b) { return a.cycles > b.cycles; });
  return stalls;
}

std::string stall_words(const std::string& why) {
  constexpr std::pair<std::string_view, std::string_view> words[] = {
      {"long_scoreboard", "global memory or L2"},
      {"short_scoreboard", "shared memory or special functions"},
      {"barrier", "a barrier"},
      {"gmma", "wgmma"},
      {"wait", "fixed latency"},
      {"math_pipe_throttle", "a busy arithmetic pipe"},
      {"mio_throttle", "a full queue to shared memory"},
      {"lg_throttle", "a full queue to global memory"},
      {"not_selected", "another warp's turn"},
      {"branch_resolving", "branches"},
      {"no_instruction", "instructions"},
      {"membar", "a fence"},
      {"drain", "stores at the end"},
      {"sleeping", "sleep"}};
  for (const auto& [name, text] : words) {
    if (why == name) return fmt::format("{} ({})", text, why);
  }
  return why;
}

struct Limit {
  std::string words;
  double blocks = 0;
};

std::optional<Limit> occupancy_limit(const NcuKernel& kernel) {
  std::optional<Limit> least;
  const double shared = kernel.at(static_shared) + kernel.at(dynamic_shared);
  const std::pair<const char*, std::string> limits[] = {
      {"registers", fmt::format("{:.0f} registers a thread", kernel.at(registers))},
      {"shared_mem", fmt::format("{:.1f} KB of shared memory a block", shared / 1024)},
      {"warps", "the size of a block"},
      {"blocks", "the number of blocks a multiprocessor holds"}};
  for (const auto& [name, words] : limits) {
    const std::string metric = std::string("launch__occupancy_limit_") + name;
    if (kernel.has(metric) && (!least || kernel.at(metric) < least->blocks))
      least = Limit{words, kernel.at(metric)};
  }
  return least;
}

using Sentence = std::optional<std::string>;

const NcuKernel& longest(const std::vector<NcuKernel>& kernels) {
  return *std::max_element(
      kernels.begin(), kernels.end(),
      [](const NcuKernel& a, const NcuKernel& b) { return a.at(time_ns) < b.at(time_ns); });
}

Sentence share_sentence(const std::vector<NcuKernel>& kernels) {
  if (kernels.size() < 2) return std::nullopt;
  std::map<std::string, std::pair<double, int64_t>> by_name;
  for (const NcuKernel& kernel : kernels) {
    auto& [time, launches] = by_name[shown(kernel)];
    time += kernel.at(time_ns);
    ++launches;
  }
  std::vector<std::pair<std::string, std::pair<double, int64_t>>> order(by_name.begin(),
                                                                        by_name.end());
  std::sort(order.begin(), order.end(),
            [](const auto& a, const auto& b) { return a.second.first > b.second.first; });
  const double all = sum_of(kernels, time_ns);
  std::string text =
      fmt::format("{} launches, {:.1f} µs one after the other:", kernels.size(), 1e-3 * all);
  for (size_t i = 0; i < order.size() && i < named_kernels; ++i) {
    const auto& [name, cost] = order[i];
    text +=
        fmt::format("{} {} {:.0f} %", i ? "," : "", name, 100 * cost.first / std::max(all, 1.0));
    if (cost.second > 1) text += fmt::format(" ({} times)", cost.second);
  }
  return text + ".";
}

Sentence bound_sentence(const NcuKernel& kernel) {
  const double tensor = tensor_pct(kernel);
  struct Unit {
    const char* name;
    double pct;
  };
  const Unit units[] = {{"DRAM", kernel.at(dram)},
                        {"the tensor pipe", tensor},
                        {"L2", kernel.at(l2)},
                        {"the multiprocessors' pipes", kernel.at(sm)}};
  const Unit& most = *std::max_element(std::begin(units), std::end(units),
                                       [](auto& a, auto& b) { return a.pct < b.pct; });
  if (most.pct <= 0) return std::nullopt;
  const std::string who = most.pct >= busy_pct
                              ? fmt::format("is bound by {}", most.name)
                              : "is bound by latency: no unit is busy most of the time";
  return fmt::format(
      "{} {} (of their peaks: DRAM {:.0f} %, L2 {:.0f} %, SM {:.0f} %, tensor pipe {:.0f} %; an "
      "instruction issued in {:.0f} % of the cycles).",
      shown(kernel), who, kernel.at(dram), kernel.at(l2), kernel.at(sm), tensor, kernel.at(issue));
}

Sentence occupancy_sentence(const NcuKernel& kernel) {
  if (!kernel.has(possible_warps)) return std::nullopt;
  std::string text = fmt::format("Occupancy {:.0f} % of {:.0f} % possible", kernel.at(active_warps),
                                 kernel.at(possible_warps));
  if (const std::optional<Limit> limit = occupancy_limit(kernel))
    text += fmt::format(", limited to {:.0f} blocks a multiprocessor by {}", limit->blocks,
                        limit->words);
  text += fmt::format("; grid {} of {} threads", kernel.grid, kernel.block);
  if (const double count = kernel.at(waves); count > 0 && count < 1)
    text += fmt::format(": {:.2f} waves, so that a part of the GPU has nothing to do", count);
  else if (count > 0)
    text += fmt::format(": {:.2f} waves", count);
  return text + ".";
}

Sentence stall_sentence(const NcuKernel& kernel) {
  const std::vector<Stall> stalls = stalls_of(kernel);
  double all = 0;
  for (const Stall& stall : stalls) all += stall.cycles;
  if (all <= 0) return std::nullopt;
  std::string text = fmt::format("Between two instructions a warp waits {:.1f} cycles:", all);
  for (size_t i = 0; i < stalls.size() && i < named_stalls; ++i)
    text += fmt::format("{} {:.0f} % for {}", i ? "," : "", 100 * stalls[i].cycles / all,
                        stall_words(stalls[i].why));
  return text + ".";
}

Sentence traffic_sentence(const GpuProfileFacts& facts) {
  const double moved = dram_bytes(facts.kernels), least = facts.known.bytes;
  if (moved <= 0) return std::nullopt;
  std::string text = fmt::format("DRAM: {} read and {} written",
                                 amount(sum_of(facts.kernels, "dram__bytes_read.sum")),
                                 amount(sum_of(facts.kernels, "dram__bytes_write.sum")));
  if (least > 0) {
    text += fmt::format(", {:.2f} times the {} that the task needs{}", moved / least, amount(least),
                        moved > much_traffic * least ? ": something is read or written twice" : "");
  }
  const NcuKernel& kernel = longest(facts.kernels);
  text += fmt::format("; through L2 {}, {:.0f} % of it hits",
                      amount(sum_of(facts.kernels, l2_bytes)), kernel.at(l2_hits));
  return text + ".";
}

Sentence trouble_sentence(const GpuProfileFacts& facts) {
  std::string text;
  if (const double spilled = spilled_bytes(facts.kernels); spilled > 0)
    text = fmt::format("Registers spill: {} through local memory.", amount(spilled));
  const NcuKernel& kernel = longest(facts.kernels);
  if (const double share = conflict_share(kernel); share > many_conflicts)
    text += fmt::format("{}{:.0f} % of the passes through shared memory are bank conflicts.",
                        text.empty() ? "" : " ", 100 * share);
  return text.empty() ? Sentence() : Sentence(text);
}

}  // namespace

std::map<std::string, double> figures_of(const GpuProfileFacts& facts) {
  if (facts.kernels.empty()) return {};
  const NcuKernel& kernel = longest(facts.kernels);
  const double moved = dram_bytes(facts.kernels), all = sum_of(facts.kernels, time_ns);
  const ProfileFacts& known = facts.known;
  std::map<std::string, double> figures = {
      {"time_us", known.time_us},
      {"floor_us", known.floor_us},
      {"fraction_of_floor", known.time_us > 0 ? known.floor_us / known.time_us : 0},
      {"launches", static_cast<double>(facts.kernels.size())},
      {"kernels_us", 1e-3 * all},
      {"longest_share", all > 0 ? kernel.at(time_ns) / all : 0},
      {"dram_bytes", moved},
      {"dram_over_least", known.bytes > 0 ? moved / known.bytes : 0},
      {"l2_bytes", sum_of(facts.kernels, l2_bytes)},
      {"spilled_bytes", spilled_bytes(facts.kernels)},
      {"dram_pct", kernel.at(dram)},
      {"l2_pct", kernel.at(l2)},
      {"l2_hit_pct", kernel.at(l2_hits)},
      {"sm_pct", kernel.at(sm)},
      {"tensor_pct", tensor_pct(kernel)},
      {"issue_pct", kernel.at(issue)},
      {"occupancy_pct", kernel.at(active_warps)},
      {"occupancy_possible_pct", kernel.at(possible_warps)},
      {"waves", kernel.at(waves)},
      {"registers", kernel.at(registers)},
      {"static_shared_bytes", kernel.at(static_shared)},
      {"dynamic_shared_bytes", kernel.at(dynamic_shared)},
      {"bank_conflict_share", conflict_share(kernel)}};
  const std::vector<Stall> stalls = stalls_of(kernel);
  for (size_t i = 0; i < stalls.size() && i < named_stalls; ++i)
    figures["stall_" + stalls[i].why] = stalls[i].cycles;
  std::erase_if(figures, [](const auto& figure) { return figure.second <= 0; });
  return figures;
}

std::vector<std::string> sentences_of(const GpuProfileFacts& facts) {
  std::vector<std::string> sentences;
  if (facts.kernels.empty()) return sentences;
  const NcuKernel& kernel = longest(facts.kernels);
  for (const Sentence& sentence :
       {floor_sentence(facts.known), share_sentence(facts.kernels), bound_sentence(kernel),
        stall_sentence(kernel), occupancy_sentence(kernel), traffic_sentence(facts),
        trouble_sentence(facts)}) {
    if (sentence) sentences.push_back(*sentence);
  }
  return sentences;
}

}  // namespace marathon
