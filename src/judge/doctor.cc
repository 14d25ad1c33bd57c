// What this machine can do, and what to install for the rest.
#include <fmt/format.h>
#include <sched.h>
#include <sys/statvfs.h>

#include <cstdlib>

#include "base/file.h"
#include "judge/build.h"
#include "judge/judge.h"
#include "judge/profile.h"

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
  const char* instead = "valgrind's callgrind counts instructions instead";
  if (!find_program("perf"))
    return {"counters", "perf is not installed",
            fmt::format("apt-get install linux-perf (optional: {})", instead), true};
  ProcessSpec spec;
  spec.argv = {"perf", "stat", "-x,", "-e", "instructions:u", "true"};
  spec.environment = clean_environment("/tmp");
  spec.timeout_s = 10;
  const Result<ProcessResult> result = run_process(spec);
  if (result && result->exit_code == 0 && read_perf_stat(result->err)["instructions"] > 0)
    return {"counters", "hardware counters work", "", true};
  const Result<std::string> paranoid = read_file("/proc/sys/kernel/perf_event_paranoid", 100);
  if (paranoid && std::atoi(paranoid->c_str()) > 2)
    return {"counters", "not allowed",
            fmt::format("let an administrator set kernel.perf_event_paranoid to 2 (optional: {})",
                        instead),
            true};
  return {"counters", "none on this machine", instead, true};
}

// Programs of a command task, and libraries, are run from there.
Finding temp_folder() {
  const char* root = std::getenv("TMPDIR");
  const fs::path folder = root && *root ? root : "/tmp";
  struct statvfs info {};
  if (::statvfs(folder.c_str(), &info) != 0)
    return {"temp folder", folder.string() + ": none", "create it or set TMPDIR", false};
  if (info.f_flag & ST_NOEXEC)
    return {"temp folder", folder.string() + " is mounted noexec",
            "set TMPDIR to a folder from which programs may be run", false};
  return {"temp folder", folder.string(), "", true};
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
          program("objdump", "objdump", "binutils", false),
          program("python3", "python3", "python3 (for Triton tasks, which come later)", false),
          cores(),
          governor(),
          temp_folder(),
          disk(cache_folder),
          program("nvcc", "nvcc",
                  "nvidia-cuda-toolkit (only for GPU tasks, which this version does not judge yet)",
                  false)};
}

}  // namespace marathon
