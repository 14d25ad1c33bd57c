// The compiler, this machine's processor, and the programs of ours that stand beside this one.
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <map>
#include <mutex>

#include "base/file.h"
#include "base/hash.h"
#include "judge/build.h"

namespace marathon {

namespace fs = std::filesystem;

namespace {

constexpr double python_limit_s = 20;
constexpr std::array<std::string_view, 4> usual_folders = {"/usr/", "/bin/", "/lib/", "/lib64/"};

// /opt/gcc-13/bin/g++ lies below /opt/gcc-13, with lib/gcc beside bin. Any other layout would open
// a folder to candidates that we know nothing of.
Result<fs::path> prefix_of(const fs::path& compiler) {
  std::error_code none;
  const fs::path real = fs::canonical(compiler, none);
  for (const std::string_view folder : usual_folders) {
    if (real.native().starts_with(folder)) return fs::path();
  }
  const fs::path prefix = real.parent_path().parent_path();
  if (fs::is_directory(prefix / "lib" / "gcc") || fs::is_directory(prefix / "libexec" / "gcc") ||
      fs::is_directory(prefix / "lib" / "clang"))
    return prefix;
  return fail(Fault::invalid,
              fmt::format("the compiler {} is a wrapper or lies in no installation that the jail "
                          "could allow; set CXX to the compiler itself, e.g. /usr/bin/g++",
                          compiler.string()));
}

// The line that names the release: nvcc has others before it.
std::string version_in(const std::string& text) {
  const size_t release = text.find("release ");
  const size_t begin = release == std::string::npos ? 0 : text.rfind('\n', release) + 1;
  return text.substr(begin, text.find('\n', begin) - begin);
}

Result<Compiler> identify(const fs::path& path) {
  ProcessSpec spec;
  spec.argv = {path.string(), "--version"};
  spec.environment = clean_environment("/tmp");
  const ProcessResult result = TRY(run_process(spec));
  if (result.exit_code != 0) {
    return fail(Fault::system, fmt::format("{} --version fails: {}; repair it or name another",
                                           path.string(), result.err.substr(0, 200)));
  }
  Compiler compiler;
  compiler.path = path;
  compiler.version = version_in(result.out);
  struct stat info {};
  ::stat(path.c_str(), &info);
  compiler.identity =
      fmt::format("{}|{}|{}|{}.{}|{}", path.string(), compiler.version, info.st_size,
                  info.st_mtim.tv_sec, info.st_mtim.tv_nsec, cpu_identity());
  return compiler;
}

Result<Compiler> examine(const std::string& name) {
  const std::optional<fs::path> path = find_program(name);
  if (!path)
    return fail(Fault::not_found,
                fmt::format("no compiler '{}'; install it (apt-get install g++) or set CXX", name));
  Compiler compiler = TRY(identify(*path));
  compiler.prefix = TRY(prefix_of(*path));
  return compiler;
}

}  // namespace

std::string cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    const size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown CPU";
}

std::string cpu_identity() {
  std::ifstream file("/proc/cpuinfo");
  std::string line, identity;
  while (std::getline(file, line) && !line.empty()) {
    if (line.starts_with("model name") || line.starts_with("flags") || line.starts_with("Features"))
      identity += line;
  }
  return sha256_hex(identity);
}

Result<fs::path> helper_program(const std::string& name) {
  const char* folder = std::getenv("MARATHON_BIN");
  const fs::path path = (folder && *folder ? fs::path(folder) : own_folder()) / name;
  if (::access(path.c_str(), X_OK) == 0) return path;
  return fail(
      Fault::not_found,
      fmt::format("{} is missing beside this program ({}); build all of Marathon with ./build.sh",
                  name, path.string()));
}

namespace {

Result<Compiler> examine_once(const std::string& name,
                              Result<Compiler> (*how)(const std::string&)) {
  static std::mutex mutex;
  static std::map<std::string, Compiler> known;  // a failure is looked at again
  const std::scoped_lock lock(mutex);
  const auto found = known.find(name);
  if (found != known.end()) return found->second;
  return known[name] = TRY(how(name));
}

std::string from_environment(const char* variable, const std::string& otherwise) {
  const char* wanted = std::getenv(variable);
  return wanted && *wanted ? wanted : otherwise;
}

// nvcc is a driver for cicc, ptxas and g++: its whole toolkit must be readable.
Result<Compiler> examine_nvcc(const std::string& name) {
  std::optional<fs::path> path = find_program(name);
  for (const std::string& folder :
       {from_environment("CUDA_HOME", ""), std::string("/usr/local/cuda")})
    if (!path && !folder.empty() && name == "nvcc") path = find_program(folder + "/bin/nvcc");
  if (!path)
    return fail(Fault::not_found,
                fmt::format("no CUDA compiler '{}': install the CUDA toolkit 12.4 "
                            "or newer, or set NVCC or CUDA_HOME",
                            name));
  Compiler compiler = TRY(identify(*path));
  // It hands host code to g++, which is a part of what it is.
  if (const Result<Compiler> host = examine("g++")) compiler.identity += "|" + host->identity;
  std::error_code none;
  const fs::path toolkit = fs::canonical(*path, none).parent_path().parent_path();
  if (toolkit != fs::path("/usr")) compiler.prefix = toolkit;
  return compiler;
}

Result<Compiler> examine_python(const std::string& name) {
  const std::optional<fs::path> path = find_program(name);
  if (!path)
    return fail(
        Fault::not_found,
        fmt::format("no '{}' for Triton; install it (apt-get install python3) or set PYTHON",
                    name));
  // Behind a virtual environment or a shim stands another one, which needs what lies beside it.
  ProcessSpec spec;
  spec.argv = {path->string(), "-c",
               "import os, sys; print(os.path.realpath(sys.executable)); print(sys.base_prefix)"};
  spec.environment = clean_environment("/tmp");
  spec.timeout_s = python_limit_s;
  const ProcessResult result = TRY(run_process(spec));
  const size_t end = result.out.find('\n');
  if (result.exit_code != 0 || end == std::string::npos) {
    return fail(Fault::system, fmt::format("{} does not work: {}; repair it or set PYTHON",
                                           path->string(), result.err.substr(0, 200)));
  }
  Compiler compiler = TRY(identify(result.out.substr(0, end)));
  const fs::path prefix = result.out.substr(end + 1, result.out.find('\n', end + 1) - end - 1);
  if (prefix != fs::path("/usr") && prefix != fs::path("/usr/local") && prefix != fs::path("/"))
    compiler.prefix = prefix;
  return compiler;
}

}  // namespace

Result<Compiler> find_compiler() { return examine_once(from_environment("CXX", "g++"), examine); }

Result<Compiler> find_nvcc() {
  return examine_once(from_environment("NVCC", "nvcc"), examine_nvcc);
}

Result<Compiler> find_python() {
  return examine_once(from_environment("PYTHON", "python3"), examine_python);
}

}  // namespace marathon
