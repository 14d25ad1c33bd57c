// Where runs live and how they are named.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "base/clock.h"
#include "base/file.h"
#include "run/run.h"

namespace marathon {

namespace fs = std::filesystem;

Result<fs::path> marathon_home() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value ? value : "");
  };
  if (const std::string home = variable("MARATHON_HOME"); !home.empty()) return fs::absolute(home);
  if (const std::string data = variable("XDG_DATA_HOME"); !data.empty())
    return fs::path(data) / "marathon";
  if (const std::string home = variable("HOME"); !home.empty())
    return fs::path(home) / ".local/share/marathon";
  return fail(Fault::invalid, "there is no place for runs: set MARATHON_HOME or HOME");
}

fs::path run_folder(const fs::path& home, const std::string& run) { return home / "runs" / run; }

namespace {

std::vector<std::string> all_runs(const fs::path& home) {
  std::vector<std::string> names;
  std::error_code none;
  for (const fs::directory_entry& entry : fs::directory_iterator(home / "runs", none)) {
    if (fs::exists(entry.path() / "log.db", none))
      names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string list_of(const std::vector<std::string>& names) {
  if (names.empty()) return "there are no runs; start one with: marathon run TASK";
  std::string text = "there are:";
  for (size_t i = names.size() - std::min<size_t>(names.size(), 10); i < names.size(); ++i)
    text += " " + names[i];
  return text;
}

fs::file_time_type written_at(const fs::path& folder) {
  std::error_code none;
  const fs::file_time_type log = fs::last_write_time(folder / "log.db", none);
  const fs::file_time_type wal = fs::last_write_time(folder / "log.db-wal", none);
  return none ? log : std::max(log, wal);
}

}  // namespace

Result<std::string> find_run(const fs::path& home, const std::string& name) {
  const std::vector<std::string> names = all_runs(home);
  if (name == "--last") {
    if (names.empty()) return fail(Fault::not_found, list_of(names));
    return *std::max_element(
        names.begin(), names.end(), [&](const std::string& a, const std::string& b) {
          return written_at(run_folder(home, a)) < written_at(run_folder(home, b));
        });
  }
  if (std::find(names.begin(), names.end(), name) != names.end()) return name;
  std::vector<std::string> fitting;
  std::copy_if(names.begin(), names.end(), std::back_inserter(fitting),
               [&](const std::string& n) { return n.starts_with(name); });
  if (fitting.size() == 1) return fitting.front();
  if (fitting.empty())
    return fail(Fault::not_found, fmt::format("no run '{}'; {}", name, list_of(names)));
  return fail(Fault::invalid, fmt::format("'{}' fits several runs; {}", name, list_of(fitting)));
}

}  // namespace marathon
