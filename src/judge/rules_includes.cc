// What a candidate in CUDA C++ may include: the toolkit's own headers, the standard library, its
// own files. An early answer in words; that no other kernel runs is seen to by the plan.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "judge/rules.h"
#include "judge/tokens.h"

namespace marathon {

namespace fs = std::filesystem;

namespace {

// Of the toolkit; a name that ends in / stands for every header of that folder, one that ends in *
// for every header whose name begins so.
constexpr std::string_view toolkit_headers[] = {"cooperative_groups.h",
                                                "cooperative_groups/",
                                                "cub/",
                                                "cuda/",
                                                "nv/target",
                                                "mma.h",
                                                "cuda.h",
                                                "cuda_*",
                                                "cudaTypedefs.h",
                                                "cuComplex.h",
                                                "math_constants.h",
                                                "device_launch_parameters.h",
                                                "driver_types.h",
                                                "vector_*",
                                                "sm_*",
                                                "device_functions.h",
                                                "device_atomic_functions.h"};

constexpr std::string_view standard_headers[] = {"algorithm",
                                                 "any",
                                                 "array",
                                                 "atomic",
                                                 "bit",
                                                 "bitset",
                                                 "cassert",
                                                 "cctype",
                                                 "cerrno",
                                                 "cfenv",
                                                 "cfloat",
                                                 "charconv",
                                                 "cinttypes",
                                                 "climits",
                                                 "cmath",
                                                 "compare",
                                                 "complex",
                                                 "concepts",
                                                 "cstdalign",
                                                 "cstdarg",
                                                 "cstdbool",
                                                 "cstddef",
                                                 "cstdint",
                                                 "cstdio",
                                                 "cstdlib",
                                                 "cstring",
                                                 "deque",
                                                 "exception",
                                                 "forward_list",
                                                 "functional",
                                                 "initializer_list",
                                                 "iterator",
                                                 "limits",
                                                 "list",
                                                 "map",
                                                 "memory",
                                                 "new",
                                                 "numbers",
                                                 "numeric",
                                                 "optional",
                                                 "queue",
                                                 "ranges",
                                                 "ratio",
                                                 "set",
                                                 "span",
                                                 "stack",
                                                 "stdexcept",
                                                 "string",
                                                 "string_view",
                                                 "tuple",
                                                 "type_traits",
                                                 "typeindex",
                                                 "typeinfo",
                                                 "unordered_map",
                                                 "unordered_set",
                                                 "utility",
                                                 "valarray",
                                                 "variant",
                                                 "vector",
                                                 "version",
                                                 "assert.h",
                                                 "ctype.h",
                                                 "errno.h",
                                                 "fenv.h",
                                                 "float.h",
                                                 "inttypes.h",
                                                 "limits.h",
                                                 "math.h",
                                                 "stdalign.h",
                                                 "stdarg.h",
                                                 "stdbool.h",
                                                 "stddef.h",
                                                 "stdint.h",
                                                 "stdio.h",
                                                 "stdlib.h",
                                                 "string.h"};

bool is_of_toolkit(std::string_view header) {
  return std::any_of(std::begin(toolkit_headers), std::end(toolkit_headers),
                     [&](std::string_view known) {
                       if (known.ends_with('/')) return header.starts_with(known);
                       if (known.ends_with('*'))
                         return header.starts_with(known.substr(0, known.size() - 1)) &&
                                header.find('/') == std::string_view::npos;
                       return header == known;
                     });
}

bool is_of_standard_library(std::string_view header) {
  return std::find(std::begin(standard_headers), std::end(standard_headers), header) !=
         std::end(standard_headers);
}

// Beside the file that includes it, or below the folder's root (-I.).
bool is_own(const std::string& header, const fs::path& from, const std::vector<SourceFile>& files) {
  const fs::path name(header);
  if (name.is_absolute()) return false;
  if (header == "marathon_kernel.h") return true;
  return std::any_of(files.begin(), files.end(), [&](const SourceFile& file) {
    return file.path == name.lexically_normal() ||
           file.path == (from.parent_path() / name).lexically_normal();
  });
}

struct Include {
  std::string header;  // empty: a macro says which
  std::string shown;   // as it is written
  int64_t line = 0;
};

std::optional<Include> include_at(const std::vector<Token>& tokens, size_t at) {
  const auto word = [&](size_t i) {
    return i < tokens.size() && !tokens[i].starts_line ? tokens[i].text : std::string();
  };
  // %: is another way to write #.
  size_t next = at + 1;
  if (!tokens[at].starts_line) return std::nullopt;
  if (tokens[at].text == "%" && word(next) == ":")
    ++next;
  else if (tokens[at].text != "#" || tokens[at].kind != TokenKind::sign)
    return std::nullopt;
  const std::string what = word(next);
  if (what != "include" && what != "include_next" && what != "import" && what != "embed")
    return std::nullopt;
  Include include;
  include.line = tokens[at].line;
  ++next;
  if (next >= tokens.size() || tokens[next].starts_line) return include;
  if (tokens[next].kind == TokenKind::text) {
    include.header = tokens[next].text;
    include.shown = '"' + include.header + '"';
  } else if (tokens[next].text == "<") {
    while (++next < tokens.size() && !tokens[next].starts_line && tokens[next].text != ">")
      include.header += tokens[next].text;
    include.shown = '<' + include.header + '>';
  } else {
    include.shown = tokens[next].text;
  }
  return include;
}

std::string_view advice_on(std::string_view header) {
  if (header.starts_with("thrust/"))
    return "thrust launches kernels of its own: write the loop, or use cub/ inside of a kernel";
  if (header.starts_with("cutlass") || header.starts_with("cute"))
    return "no library of kernels: write the instructions (cuda/ptx has them)";
  return "allowed are the toolkit's cuda_*.h, cooperative_groups, cub/, cuda/ and mma.h, the "
         "standard library without threads and files, and the candidate's own files";
}

}  // namespace

std::optional<std::string> broken_include_rule(const std::vector<SourceFile>& editable,
                                               const std::vector<SourceFile>& all) {
  for (const SourceFile& file : editable) {
    if (file.path == fs::path(params_file)) continue;
    const std::vector<Token> tokens = tokens_of(file.content, TokenSyntax::cpp);
    for (size_t i = 0; i < tokens.size(); ++i) {
      const std::optional<Include> include = include_at(tokens, i);
      if (!include) continue;
      const std::string place = fmt::format("{}:{}", file.path.string(), include->line);
      if (include->header.empty()) {
        return fmt::format("{}: #include {}: name the header itself, a macro cannot be judged",
                           place, include->shown.substr(0, 100));
      }
      if (is_own(include->header, file.path, all) || is_of_toolkit(include->header) ||
          is_of_standard_library(include->header))
        continue;
      return fmt::format("{}: #include {}: {}", place, include->shown.substr(0, 100),
                         advice_on(include->header));
    }
  }
  return std::nullopt;
}

}  // namespace marathon
