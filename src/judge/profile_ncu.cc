#include <algorithm>
#include <charconv>
#include <utility>

#include "judge/profile_gpu.h"

namespace marathon {

namespace {

constexpr size_t max_kernels = 4096, max_name_bytes = 200;

std::string_view take_line(std::string_view& text) {
  std::string_view line = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(text.size(), line.size() + 1));
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

// Every cell stands in quotes; a quote in it is doubled.
std::vector<std::string> cells_of(std::string_view line) {
  std::vector<std::string> cells(1);
  bool quoted = false;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '"' && quoted && i + 1 < line.size() && line[i + 1] == '"') {
      cells.back() += line[i++];
    } else if (line[i] == '"') {
      quoted = !quoted;
    } else if (line[i] == ',' && !quoted) {
      cells.emplace_back();
    } else {
      cells.back() += line[i];
    }
  }
  return cells;
}

// "1,205.5"; "n/a" is no number.
std::optional<double> number(std::string text) {
  std::erase(text, ',');
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || text.empty()) return std::nullopt;
  return value;
}

// To ns and bytes, whatever unit it chose.
double factor_of(const std::string& unit) {
  constexpr std::pair<std::string_view, double> factors[] = {
      {"us", 1e3},     {"usecond", 1e3}, {"ms", 1e6},    {"msecond", 1e6}, {"s", 1e9},
      {"second", 1e9}, {"Kbyte", 1e3},   {"Mbyte", 1e6}, {"Gbyte", 1e9},   {"Tbyte", 1e12}};
  for (const auto& [name, factor] : factors) {
    if (unit == name || unit == std::string(name) + "/block") return factor;
  }
  return 1;
}

class Table {
 public:
  Table(std::vector<std::string> names, std::vector<std::string> units)
      : names_(std::move(names)), units_(std::move(units)) {}

  NcuKernel kernel_of(const std::vector<std::string>& cells) const {
    NcuKernel kernel;
    for (size_t i = 0; i < cells.size() && i < names_.size(); ++i) {
      if (names_[i] == "Kernel Name")
        kernel.name = cells[i].substr(0, max_name_bytes);
      else if (names_[i] == "Grid Size")
        kernel.grid = cells[i];
      else if (names_[i] == "Block Size")
        kernel.block = cells[i];
      else if (const std::optional<double> value = number(cells[i]);
               value && names_[i].find("__") != std::string::npos)
        kernel.values[names_[i]] = *value * (i < units_.size() ? factor_of(units_[i]) : 1);
    }
    return kernel;
  }

 private:
  std::vector<std::string> names_, units_;
};

}  // namespace

double NcuKernel::at(const std::string& metric) const {
  const auto found = values.find(metric);
  return found == values.end() ? 0 : found->second;
}

std::vector<std::string> ncu_metrics() {
  constexpr const char* metrics =
      "gpu__time_duration.sum,"
      "launch__registers_per_thread,launch__shared_mem_per_block_static,"
      "launch__shared_mem_per_block_dynamic,launch__waves_per_multiprocessor,"
      "launch__occupancy_limit_blocks,launch__occupancy_limit_registers,"
      "launch__occupancy_limit_shared_mem,launch__occupancy_limit_warps,"
      "sm__maximum_warps_per_active_cycle_pct,sm__warps_active.avg.pct_of_peak_sustained_active,"
      "sm__throughput.avg.pct_of_peak_sustained_elapsed,"
      "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active,"
      "sm__pipe_tensor_op_hmma_cycles_active.avg.pct_of_peak_sustained_active,"
      "smsp__issue_active.avg.pct_of_peak_sustained_active,"
      "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed,"
      "dram__bytes_read.sum,dram__bytes_write.sum,"
      "lts__throughput.avg.pct_of_peak_sustained_elapsed,lts__t_sector_hit_rate.pct,"
      "lts__t_bytes.sum,"
      "l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum,"
      "l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum,"
      "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum,"
      "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum,"
      "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum,"
      "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum";
  // The section knows which reasons for a stall this chip has.
  return {"--metrics", metrics, "--section", "WarpStateStats"};
}

std::vector<NcuKernel> read_ncu(std::string_view text) {
  std::vector<NcuKernel> kernels;
  std::vector<std::string> names;
  while (!text.empty() && names.empty()) {
    const std::string_view line = take_line(text);
    if (line.starts_with("\"ID\",")) names = cells_of(line);
  }
  if (names.empty()) return kernels;
  const Table table(std::move(names), cells_of(take_line(text)));
  while (!text.empty() && kernels.size() < max_kernels) {
    const std::string_view line = take_line(text);
    if (!line.starts_with('"')) continue;
    kernels.push_back(table.kernel_of(cells_of(line)));
  }
  return kernels;
}

std::string why_no_table(std::string_view text) {
  if (text.find("ERR_NVGPUCTRPERM") != std::string_view::npos) {
    return "ncu may not read this GPU's counters (ERR_NVGPUCTRPERM): load the driver with "
           "NVreg_RestrictProfilingToAdminUsers=0, or run as root";
  }
  while (!text.empty()) {
    const std::string_view line = take_line(text);
    if (line.starts_with("==ERROR==")) return "ncu: " + std::string(line.substr(0, 300));
  }
  return "ncu saw no kernel (see the raw profile)";
}

}  // namespace marathon
