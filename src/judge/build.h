// Building what is not trusted: in the jail, from a scratch folder that holds nothing else, into a
// cache by content and compiler. Inside of judge/ only.
#pragma once

#include <filesystem>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/process.h"
#include "base/result.h"
#include "base/sandbox.h"

namespace marathon {

extern const std::string_view kernel_header;  // text of marathon_kernel.h

struct Compiler {
  std::filesystem::path path;
  std::string version;   // first line of --version
  std::string identity;  // path, version, size, date, and the CPU that -march=native means
};
Result<Compiler> find_compiler();

struct SourceFile {
  std::filesystem::path path;  // relative to the scratch folder
  std::string content;
};

struct BuildJob {
  std::vector<SourceFile> files;     // everything that the compiler may see
  std::vector<std::string> sources;  // compiled into one shared object
  std::vector<std::string> flags;
  double timeout_s = 120;
  int64_t max_memory_bytes = 4LL << 30;
  bool unsafe_no_sandbox = false;
};

struct BuildOutcome {
  bool ok = false, cached = false;
  std::filesystem::path library;  // in the cache
  std::string library_hash;
  std::string output;  // bounded
  std::string reason;  // why it failed, in a sentence
  double seconds = 0;
};

// Builds or takes from `cache_folder`/builds. An Error only when we could not work.
Result<BuildOutcome> build(const BuildJob& job, const std::filesystem::path& cache_folder,
                           const std::filesystem::path& whole_output_file, std::stop_token stop);

// Runs argv in a jail through `marathon-worker exec`. `spec.argv` is the command itself.
Result<ProcessResult> run_jailed(ProcessSpec spec, const Jail& jail,
                                 const std::filesystem::path& scratch, bool unsafe_no_sandbox,
                                 std::stop_token stop);

// marathon-worker and marathon-judge: beside this program, or in $MARATHON_BIN.
Result<std::filesystem::path> helper_program(const std::string& name);

std::string cpu_model();

}  // namespace marathon
