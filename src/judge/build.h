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
#include "core/task.h"

namespace marathon {

extern const std::string_view kernel_header;  // text of marathon_kernel.h

struct Compiler {
  std::filesystem::path path;
  std::string version;   // first line of --version
  std::string identity;  // path, version, size, date, and the CPU that -march=native means
  // Where it and its headers lie, when that is none of the usual folders.
  std::filesystem::path prefix;
};
// $CXX, else g++ of $PATH.
Result<Compiler> find_compiler();
// $NVCC, else nvcc of $PATH, of $CUDA_HOME or of /usr/local/cuda.
Result<Compiler> find_nvcc();
// The interpreter that Triton runs in: $PYTHON, else python3 of $PATH.
Result<Compiler> find_python();

struct SourceFile {
  std::filesystem::path path;  // relative to the scratch folder
  std::string content;
};

struct BuildJob {
  Language language = Language::cpp;
  std::string architecture;          // of a GPU: "90a"
  std::vector<SourceFile> files;     // everything that the compiler may see
  std::vector<std::string> sources;  // compiled into one shared object
  std::vector<std::string> flags;
  double timeout_s = 120;
  int64_t max_memory_bytes = 4LL << 30;
  bool unsafe_no_sandbox = false;
  std::filesystem::path secret_folder;  // the task's: must lie where no compiler may read
};

// What one kernel takes of a multiprocessor, as ptxas says it.
struct KernelResources {
  std::string name;    // mangled: what a plan calls it
  std::string kernel;  // as a person would write it
  int64_t registers = 0;
  int64_t spill_store_bytes = 0, spill_load_bytes = 0, stack_bytes = 0;
  int64_t static_shared_bytes = 0;
  int64_t barriers = 0;
  int64_t max_threads = 0;  // by __launch_bounds__; 0: it says none
  std::string source;       // the translation unit
  bool operator==(const KernelResources&) const = default;
};

struct BuildOutcome {
  bool ok = false, cached = false;
  std::filesystem::path library;  // in the cache; of Triton: the Python module
  std::vector<std::filesystem::path>
      cubins;                            // of CUDA: one a .cu file, the code that the library holds
  std::vector<KernelResources> kernels;  // of CUDA
  std::string library_hash;              // of Triton: over all files beside it
  std::string output;                    // bounded
  std::string reason;                    // why it failed, in a sentence
  double seconds = 0;
};

// Builds or takes from `cache_folder`/builds. An Error only when we could not work.
// `whole_output_file` (optional) gets all that the compiler said, up to 16 MB.
Result<BuildOutcome> build(const BuildJob& job, const std::filesystem::path& cache_folder,
                           const std::filesystem::path& whole_output_file, std::stop_token stop);

// Without the cache, in `scratch`: the library is scratch/out/library.so, with what else the flags
// ask for beside it; of Triton it is scratch/out/module/NAME.py.
Result<BuildOutcome> compile(const BuildJob& job, const std::filesystem::path& scratch,
                             const std::filesystem::path& whole_output_file, std::stop_token stop);

// The cache (build_cache.cc). An entry is a folder with the library, its cubins or the other
// modules, their hashes and the compiler's output; one whose content does not fit its hashes is no
// entry.
std::string cache_key(const BuildJob& job, const Compiler& compiler);
std::optional<BuildOutcome> from_cache(const std::filesystem::path& entry);
// Written beside, synced, renamed: who loses the race for one key takes the winner's.
Result<BuildOutcome> publish(const std::filesystem::path& entry,
                             const std::filesystem::path& library, BuildOutcome outcome);

Result<Compiler> compiler_of(const BuildJob& job);

// ---- steps of compile()

// One call of a compiler in the jail, with `seconds` left; `words` without the program. No library
// yet.
Result<BuildOutcome> run_compiler(const BuildJob& job, const Compiler& compiler,
                                  const std::vector<std::string>& words,
                                  const std::filesystem::path& scratch,
                                  const std::filesystem::path& output_file, double seconds,
                                  std::stop_token stop);
// nvcc, a call for each source and one that links (build_cuda.cc).
Result<BuildOutcome> compile_cuda(const BuildJob& job, const Compiler& compiler,
                                  const std::filesystem::path& scratch,
                                  const std::filesystem::path& whole_output_file,
                                  std::stop_token stop);
// Every module of a candidate is parsed and kept; Triton compiles when it runs (build_python.cc).
Result<BuildOutcome> compile_python(const BuildJob& job, const Compiler& compiler,
                                    const std::filesystem::path& scratch,
                                    const std::filesystem::path& whole_output_file,
                                    std::stop_token stop);
// What `nvcc --resource-usage` says of each kernel.
std::vector<KernelResources> read_resources(std::string_view output, const std::string& source);

// Runs argv in a jail through `marathon-worker exec`. `spec.argv` is the command itself.
Result<ProcessResult> run_jailed(ProcessSpec spec, const Jail& jail,
                                 const std::filesystem::path& scratch, bool unsafe_no_sandbox,
                                 std::stop_token stop);
// The words that put a command into a jail; writes the jail's file into `scratch`.
Result<std::vector<std::string>> jail_words(const Jail& jail, const std::filesystem::path& scratch,
                                            bool unsafe_no_sandbox);

// marathon, marathon-worker and marathon-judge: beside this program, or in $MARATHON_BIN.
Result<std::filesystem::path> helper_program(const std::string& name);

std::string cpu_model();
std::string cpu_identity();  // hash of model and features: what -march=native depends on

}  // namespace marathon
