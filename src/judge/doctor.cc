// What this machine can do, and what to install for the rest.
#include <fmt/format.h>
#include <sched.h>

#include "base/file.h"
#include "judge/build.h"
#include "judge/judge.h"

namespace marathon {

namespace fs = std::filesystem;

namespace {

constexpr int64_t little_space_bytes = 2LL << 30;

Finding program(const char* topic, const char* name, const char* package, bool needed) {
  const std::optional<fs::path> path = find_program(name);
  if (path) return {topic, path->string(), "", true};
  return {topic, "not installed", fmt::format("apt-get install {}", package), !needed};
}

Finding compiler() {
  const Result<Compiler> found = find_compiler();
  if (found) return {"compiler", found->version, "", true};
  return {"compiler", "none", found.error().what, false};
}

Finding sandbox() {
  const SandboxStatus status = probe_sandbox();
  const std::string state =
      fmt::format("{} (Landlock ABI {})", to_string(status.level), status.landlock_abi);
  return {"sandbox", state, status.missing, status.level == SandboxLevel::full};
}

Finding counters() {
  if (!find_program("perf"))
    return {"counters", "perf is not installed",
            "apt-get install linux-perf (optional: callgrind counts instructions instead)", true};
  ProcessSpec spec;
  spec.argv = {"perf", "stat", "-x,", "-e", "instructions", "true"};
  spec.environment = clean_environment("/tmp");
  spec.timeout_s = 10;
  const Result<ProcessResult> result = run_process(spec);
  const bool works =
      result && result->exit_code == 0 && result->err.find("not supported") == std::string::npos;
  if (works) return {"counters", "hardware counters work", "", true};
  return {"counters", "none on this machine", "callgrind counts instructions instead", true};
}

Finding cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  ::sched_getaffinity(0, sizeof set, &set);
  const int count = CPU_COUNT(&set);
  return {"cores", fmt::format("{} × {}", count, cpu_model()),
          count > 1 ? "" : "with one core the judge shares it with the candidate: expect noise",
          true};
}

Finding governor() {
  const Result<std::string> text =
      read_file("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", 100);
  if (!text) return {"clock", "not readable (a virtual machine?)", "", true};
  const std::string name = text->substr(0, text->find('\n'));
  return {"clock", "governor " + name,
          name == "performance"
              ? ""
              : "for less noise, let an administrator set the governor to performance",
          true};
}

Finding disk(const fs::path& folder) {
  fs::path there = folder;
  while (!there.empty() && !fs::exists(there) && there != there.parent_path())
    there = there.parent_path();
  const Result<int64_t> free = free_bytes(there);
  if (!free) return {"disk", free.error().what, "", false};
  const bool enough = *free > little_space_bytes;
  return {"disk",
          fmt::format("{:.1f} GB free at {}", static_cast<double>(*free) / 1e9, there.string()),
          enough ? "" : "less than 2 GB: runs keep artifacts there; free some or set MARATHON_HOME",
          enough};
}

Finding helper(const char* name) {
  const Result<fs::path> path = helper_program(name);
  if (path) return {name, path->string(), "", true};
  return {name, "missing", path.error().what, false};
}

}  // namespace

std::vector<Finding> examine_machine(const fs::path& cache_folder) {
  return {compiler(),
          program("git", "git", "git", true),
          helper("marathon-judge"),
          helper("marathon-worker"),
          sandbox(),
          counters(),
          program("valgrind", "valgrind", "valgrind", false),
          cores(),
          governor(),
          disk(cache_folder),
          program("nvcc", "nvcc",
                  "nvidia-cuda-toolkit (only for GPU tasks, which this version does not judge yet)",
                  false)};
}

}  // namespace marathon
