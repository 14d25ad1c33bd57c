// CUDA C++: a cubin for each .cu file, kept from the very compilation that the library is made of.
// A second compilation would not do: names in anonymous namespaces differ between two.
#include <cxxabi.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "base/cubin.h"
#include "base/file.h"
#include "judge/build.h"

namespace marathon {

namespace fs = std::filesystem;

namespace {

constexpr int64_t max_said_bytes = 16LL << 20;

std::string demangled(const std::string& name) {
  int status = 0;
  char* text = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
  std::string result = status == 0 && text ? text : name;
  std::free(text);
  return result;
}

// The number in front of `unit`: "16 bytes spill stores" has 16 of " bytes spill stores".
int64_t number_before(std::string_view line, std::string_view unit) {
  const size_t end = line.find(unit);
  if (end == std::string_view::npos) return 0;
  size_t begin = end;
  while (begin > 0 && line[begin - 1] >= '0' && line[begin - 1] <= '9') --begin;
  int64_t number = 0;
  std::from_chars(line.data() + begin, line.data() + end, number);
  return number;
}

class CudaBuild {
 public:
  CudaBuild(const BuildJob& job, const Compiler& compiler, const fs::path& scratch,
            std::stop_token stop)
      : job_(job), compiler_(compiler), scratch_(scratch), stop_(std::move(stop)) {}

  Result<BuildOutcome> run(const fs::path& whole_output_file) {
    for (size_t i = 0; i < job_.sources.size(); ++i) {
      if (!TRY(compile(i))) return finish(whole_output_file);
    }
    TRY(step(link_words()));
    outcome_.library = scratch_ / "out" / "library.so";
    return finish(whole_output_file);
  }

 private:
  std::vector<std::string> common_words() const {
    std::vector<std::string> words = {
        fmt::format("-gencode=arch=compute_{0},code=sm_{0}", job_.architecture),
        "-Xcompiler",
        "-fPIC",
        "-cudart",
        "static",
        "-I."};
    words.insert(words.end(), job_.flags.begin(), job_.flags.end());
    return words;
  }

  // False when it did not compile.
  Result<bool> compile(size_t i) {
    const std::string& source = job_.sources[i];
    const fs::path kept = scratch_ / "out" / fmt::format("kept-{}", i);
    TRY(make_folders(kept));
    std::vector<std::string> words = common_words();
    words.insert(words.end(), {"--resource-usage", "--keep", "--keep-dir", kept.string(), "-c",
                               source, "-o", object(i)});
    const std::string said = TRY(step(words));
    if (!outcome_.ok || language_of_source(source) != Language::cuda) return outcome_.ok;
    const std::string cubin = TRY(keep_cubin(source, kept));
    const CubinFacts facts = read_cubin(cubin).value_or(CubinFacts());  // the rules speak of damage
    for (KernelResources& kernel : read_resources(said, source)) {
      const auto bound = facts.max_threads.find(kernel.name);
      if (bound != facts.max_threads.end()) kernel.max_threads = bound->second;
      outcome_.kernels.push_back(std::move(kernel));
    }
    return true;
  }

  std::vector<std::string> link_words() const {
    std::vector<std::string> words = common_words();
    words.insert(words.end(), {"-shared", "-Xlinker", "-z,defs,-z,relro,-z,now,-z,noexecstack"});
    for (size_t i = 0; i < job_.sources.size(); ++i) words.push_back(object(i));
    words.insert(words.end(), {"-o", (scratch_ / "out" / "library.so").string()});
    return words;
  }

  std::string object(size_t i) const {
    return (scratch_ / "out" / fmt::format("object-{}.o", i)).string();
  }

  // Runs nvcc in what is left of the time; what it said is returned whole.
  Result<std::string> step(const std::vector<std::string>& words) {
    const fs::path said_file = scratch_ / "said.txt";
    const double left = job_.timeout_s - outcome_.seconds;
    BuildOutcome done =
        TRY(run_compiler(job_, compiler_, words, scratch_, said_file, std::max(left, 0.1), stop_));
    const std::string said = TRY(read_file(said_file, max_said_bytes));
    whole_ += said;
    outcome_.ok = done.ok;
    outcome_.reason = std::move(done.reason);
    outcome_.output += done.output;
    outcome_.seconds += done.seconds;
    return said;
  }

  // Its bytes.
  Result<std::string> keep_cubin(const std::string& source, const fs::path& kept) {
    std::vector<fs::path> found;
    for (const fs::path& file : TRY(list_files(kept))) {
      if (file.extension() == ".cubin") found.push_back(kept / file);
    }
    if (found.size() != 1) {
      return fail(Fault::system, fmt::format("nvcc left {} cubins of {}; is it 12.4 or newer?",
                                             found.size(), source));
    }
    // a/tile.cu and b/tile.cu are two.
    std::string name = fs::path(source).replace_extension().generic_string();
    for (char& c : name) c = c == '/' ? '-' : c;
    const fs::path folder = scratch_ / "out" / "cubins";
    TRY(make_folders(folder));
    fs::path to = folder / (name + ".cubin");
    for (int n = 2; fs::exists(to); ++n) to = folder / fmt::format("{}-{}.cubin", name, n);
    std::error_code code;
    fs::rename(found.front(), to, code);
    if (code) return fail_errno("rename to " + to.string(), code.value());
    outcome_.cubins.push_back(to);
    return read_file(to);
  }

  Result<BuildOutcome> finish(const fs::path& whole_output_file) {
    if (!whole_output_file.empty()) TRY(write_file(whole_output_file, whole_));
    return std::move(outcome_);
  }

  const BuildJob& job_;
  const Compiler& compiler_;
  const fs::path& scratch_;
  std::stop_token stop_;
  BuildOutcome outcome_;
  std::string whole_;
};

}  // namespace

// ptxas info    : Compiling entry function '_Z5scalePfi' for 'sm_90a'
// ptxas info    : Function properties for _Z5scalePfi
//     8 bytes stack frame, 16 bytes spill stores, 24 bytes spill loads
// ptxas info    : Used 40 registers, used 1 barriers, 512 bytes smem
std::vector<KernelResources> read_resources(std::string_view output, const std::string& source) {
  constexpr std::string_view entry = "Compiling entry function '", properties = "properties for ";
  std::vector<KernelResources> kernels;
  bool of_kernel = false;  // a function that was not inlined has lines of its own
  while (!output.empty()) {
    const std::string_view line = output.substr(0, output.find('\n'));
    output.remove_prefix(std::min(output.size(), line.size() + 1));
    if (const size_t at = line.find(entry); at != std::string_view::npos) {
      const std::string_view rest = line.substr(at + entry.size());
      KernelResources kernel;
      kernel.name = rest.substr(0, rest.find('\''));
      kernel.kernel = demangled(kernel.name);
      kernel.source = source;
      kernels.push_back(std::move(kernel));
      of_kernel = true;
    }
    if (kernels.empty()) continue;
    KernelResources& kernel = kernels.back();
    if (const size_t at = line.find(properties); at != std::string_view::npos)
      of_kernel = line.substr(at + properties.size()) == kernel.name;
    if (of_kernel && line.find("bytes stack frame") != std::string_view::npos) {
      kernel.stack_bytes = number_before(line, " bytes stack frame");
      kernel.spill_store_bytes = number_before(line, " bytes spill stores");
      kernel.spill_load_bytes = number_before(line, " bytes spill loads");
    }
    if (line.find(": Used ") != std::string_view::npos) {
      kernel.registers = number_before(line, " registers");
      kernel.barriers = number_before(line, " barriers");
      kernel.static_shared_bytes = number_before(line, " bytes smem");
    }
  }
  return kernels;
}

Result<BuildOutcome> compile_cuda(const BuildJob& job, const Compiler& compiler,
                                  const fs::path& scratch, const fs::path& whole_output_file,
                                  std::stop_token stop) {
  return CudaBuild(job, compiler, scratch, std::move(stop)).run(whole_output_file);
}

}  // namespace marathon
