// Triton: nothing is compiled before it runs. The modules are parsed, so that an error of syntax is
// told without a GPU, and kept as they are.
#include <fmt/format.h>

#include "base/file.h"
#include "judge/build.h"

namespace marathon {

namespace fs = std::filesystem;

namespace {

// compile() leaves no file behind, as py_compile does. One line an error, as compilers write them.
constexpr const char* parse_script = R"(import sys
bad = 0
for name in sys.argv[1:]:
    try:
        with open(name, encoding='utf-8') as file:
            compile(file.read(), name, 'exec', dont_inherit=True)
    except SyntaxError as error:
        bad = 1
        print(f'{name}:{error.lineno or 1}:{error.offset or 1}: error: {error.msg}', file=sys.stderr)
        if error.text:
            print('    ' + error.text.rstrip()[:300], file=sys.stderr)
    except (ValueError, RecursionError, MemoryError) as error:
        bad = 1
        print(f'{name}:1:1: error: {type(error).__name__}: {error}', file=sys.stderr)
sys.exit(bad)
)";

}  // namespace

Result<BuildOutcome> compile_python(const BuildJob& job, const Compiler& compiler,
                                    const fs::path& scratch, const fs::path& whole_output_file,
                                    std::stop_token stop) {
  if (job.sources.size() != 1)
    return fail(Fault::invalid, "a candidate in Triton is one module; look at [build] sources");
  std::vector<std::string> words = {"-I", "-S", "-c", parse_script};
  const fs::path module = scratch / "out" / "module";
  for (const SourceFile& file : job.files) {
    const fs::path to = module / file.path;
    TRY(make_folders(to.parent_path()));
    TRY(write_file(to, file.content));
    if (file.path.extension() == ".py") words.push_back(file.path.string());
  }
  BuildOutcome outcome = TRY(run_compiler(job, compiler, words, scratch, whole_output_file,
                                          job.timeout_s, std::move(stop)));
  outcome.library = module / job.sources.front();
  return outcome;
}

}  // namespace marathon
