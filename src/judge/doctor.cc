// What this machine can do, and what to install for the rest.
#include <fmt/format.h>
#include <sched.h>
#include <sys/statvfs.h>

#include <cstdlib>
#include <string_view>

#include "base/file.h"
#include "judge/build.h"
#include "judge/judge.h"
#include "judge/profile.h"
#include "judge/sanitize.h"

namespace marathon {

namespace fs = std::filesystem;

namespace {

constexpr int64_t little_space_bytes = 2LL << 30;
constexpr double python_limit_s = 20;

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

Finding cuda_compiler() {
  const char* advice =
      "install the CUDA toolkit 12.4 or newer, or set NVCC (only for tasks in CUDA)";
  const Result<Compiler> found = find_nvcc();
  if (!found) return {"nvcc", "not installed", advice, true};
  return {"nvcc", found->version + " (" + found->path.string() + ")", "", true};
}

Finding sanitizer() {
  if (const std::optional<fs::path> found = find_compute_sanitizer())
    return {"compute-sanitizer", found->string(), "", true};
  return {
      "compute-sanitizer", "not installed",
      fmt::format("{} (only for GPU tasks with [judge] sanitize)", how_to_get_compute_sanitizer),
      true};
}

// Versions alone: importing torch takes seconds and opens the GPU.
constexpr std::string_view versions_script =
    "import importlib.metadata as m, platform\n"
    "print(platform.python_version())\n"
    "for name in ('torch', 'triton'):\n"
    "    try: print(name, m.version(name))\n"
    "    except m.PackageNotFoundError: print('no', name)\n";

Finding python() {
  const char* wanted = std::getenv("PYTHON");
  const std::optional<fs::path> found = find_program(wanted && *wanted ? wanted : "python3");
  if (!found)
    return {"python3", "not installed", "apt-get install python3 (only for tasks in Triton)", true};
  ProcessSpec spec;
  spec.argv = {found->string(), "-c", std::string(versions_script)};
  spec.environment = clean_environment("/tmp");
  spec.timeout_s = python_limit_s;
  const Result<ProcessResult> result = run_process(spec);
  if (!result || result->exit_code != 0)
    return {"python3", found->string() + " does not work", "repair it or set PYTHON", true};
  std::string state = result->out;
  while (state.ends_with('\n')) state.pop_back();
  for (size_t at = state.find('\n'); at != std::string::npos; at = state.find('\n', at))
    state.replace(at, 1, ", ");
  const bool has_all =
      state.find("no torch") == std::string::npos && state.find("no triton") == std::string::npos;
  return {"python3", state, has_all ? "" : "pip install torch triton (only for tasks in Triton)",
          true};
}

// Where the loader finds the driver's library; the controller itself never loads it.
std::optional<fs::path> driver_library() {
  std::vector<std::string> folders = {"/usr/lib/x86_64-linux-gnu",
                                      "/usr/lib/aarch64-linux-gnu",
                                      "/usr/lib64",
                                      "/usr/lib",
                                      "/usr/lib/wsl/lib",
                                      "/usr/local/nvidia/lib64",
                                      "/usr/local/cuda/compat"};
  if (const char* path = std::getenv("LD_LIBRARY_PATH")) {
    std::string_view rest = path;
    while (!rest.empty()) {
      const std::string_view folder = rest.substr(0, rest.find(':'));
      if (!folder.empty()) folders.insert(folders.begin(), std::string(folder));
      rest.remove_prefix(std::min(rest.size(), folder.size() + 1));
    }
  }
  for (const std::string& folder : folders) {
    if (fs::exists(fs::path(folder) / "libcuda.so.1")) return fs::path(folder) / "libcuda.so.1";
  }
  return std::nullopt;
}

Finding gpu_driver() {
  const bool has_device = fs::exists("/dev/nvidiactl");
  const std::optional<fs::path> library = driver_library();
  if (!has_device && !library)
    return {"NVIDIA driver", "none", "only for tasks in CUDA or Triton: they need a GPU", true};
  if (!has_device)
    return {"NVIDIA driver", "its library, but no /dev/nvidiactl",
            "load the driver's module, or give the container its devices (--gpus all)", true};
  if (!library)
    return {"NVIDIA driver", "/dev/nvidiactl, but no libcuda.so.1",
            "install the driver's libraries (in a container: NVIDIA_DRIVER_CAPABILITIES=compute,"
            "utility), or set LD_LIBRARY_PATH",
            true};
  std::string version = "libcuda.so.1";
  if (const Result<std::string> text = read_file("/proc/driver/nvidia/version", 4096))
    version = text->substr(0, text->find('\n'));
  return {"NVIDIA driver", version + " (" + library->string() + ")", "", true};
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
          cores(),
          governor(),
          temp_folder(),
          disk(cache_folder),
          cuda_compiler(),
          sanitizer(),
          python(),
          gpu_driver()};
}

}  // namespace marathon
