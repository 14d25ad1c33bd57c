#include "judge/fingerprint.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <unordered_set>

#include "judge/tokens.h"

namespace marathon {

namespace {

// As in tools/fingerprint.py.
constexpr size_t gram = 12, window = 8;
constexpr std::string_view list_version = "marathon fingerprints 1";
constexpr std::string_view shape_of_list = "gram 12 window 8 modulus ";
constexpr uint64_t golden = 0x9e3779b97f4a7c15;

const std::unordered_set<std::string_view> keywords = {
    "and",          "as",           "asm",
    "assert",       "auto",         "bool",
    "break",        "case",         "char",
    "class",        "const",        "constexpr",
    "continue",     "def",          "default",
    "del",          "do",           "double",
    "elif",         "else",         "enum",
    "except",       "extern",       "float",
    "for",          "from",         "global",
    "if",           "import",       "in",
    "inline",       "int",          "is",
    "lambda",       "long",         "namespace",
    "not",          "operator",     "or",
    "pass",         "private",      "public",
    "raise",        "return",       "short",
    "signed",       "sizeof",       "static",
    "struct",       "switch",       "template",
    "this",         "try",          "typedef",
    "typename",     "union",        "unsigned",
    "using",        "virtual",      "void",
    "volatile",     "while",        "with",
    "yield",        "None",         "True",
    "False",        "true",         "false",
    "nullptr",      "__global__",   "__device__",
    "__shared__",   "__constant__", "__launch_bounds__",
    "__restrict__", "__host__",     "__forceinline__",
    "threadIdx",    "blockIdx",     "blockDim",
    "gridDim",      "uint32_t",     "uint64_t",
    "int32_t",      "int64_t",      "size_t"};

constexpr std::string_view cpp_endings[] = {".cu", ".cuh", ".h",   ".hpp", ".hh",
                                            ".cc", ".cpp", ".cxx", ".c",   ".inl"};

uint64_t fnv(std::string_view text) {
  uint64_t value = 0xcbf29ce484222325;
  for (const char c : text) value = (value ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return value;
}

uint64_t mixed(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

// A name that anybody could change is known by its place among those of its k-gram.
struct Normal {
  uint64_t code = 0;
  std::string free_name;
};

std::optional<TokenSyntax> syntax_of(const std::filesystem::path& path) {
  const std::string ending = path.extension().string();
  if (ending == ".py") return TokenSyntax::python;
  if (std::find(std::begin(cpp_endings), std::end(cpp_endings), ending) != std::end(cpp_endings))
    return TokenSyntax::cpp;
  return std::nullopt;
}

std::vector<Normal> normalised(const SourceFile& file, TokenSyntax syntax) {
  std::vector<Normal> result;
  std::string before, two_before;
  for (Token& token : tokens_of(file.content, syntax)) {
    const bool is_end = syntax == TokenSyntax::python && token.text == ";";
    if (token.kind == TokenKind::newline || (token.kind == TokenKind::sign && is_end)) continue;
    if (token.kind == TokenKind::text) {
      result.push_back({fnv("\x02"), ""});
      token.text.clear();
    } else {
      const bool is_member = before == "." || (before == ":" && two_before == ":") ||
                             (before == ">" && two_before == "-");
      const bool is_free =
          token.kind == TokenKind::name && !is_member && !keywords.contains(token.text);
      result.push_back({fnv(token.text), is_free ? token.text : ""});
    }
    two_before = std::move(before);
    before = std::move(token.text);
  }
  return result;
}

uint64_t hash_of(const Normal* tokens) {
  uint64_t value = 0;
  std::array<const std::string*, gram> places{};
  size_t count = 0;
  for (size_t i = 0; i < gram; ++i) {
    uint64_t code = tokens[i].code;
    if (!tokens[i].free_name.empty()) {
      size_t place = 0;
      while (place < count && *places[place] != tokens[i].free_name) ++place;
      if (place == count) places[count++] = &tokens[i].free_name;
      code = fnv(std::string{'\x01', static_cast<char>('A' + place)});
    }
    value = value * golden + code;
  }
  return mixed(value);
}

// The rightmost least hash of every window.
std::vector<uint64_t> winnowed(const std::vector<uint64_t>& hashes) {
  std::vector<uint64_t> kept;
  size_t last = hashes.size();
  for (size_t start = 0; start == 0 || start + window <= hashes.size(); ++start) {
    const size_t end = std::min(start + window, hashes.size());
    size_t least = start;
    for (size_t i = start; i < end; ++i) {
      if (hashes[i] <= hashes[least]) least = i;
    }
    if (end == 0 || least == last) continue;
    kept.push_back(hashes[least]);
    last = least;
  }
  return kept;
}

// The next line of a head; Error when it does not begin as it must.
Result<std::string_view> line_of(std::string_view& bytes, std::string_view beginning) {
  const size_t end = bytes.find('\n');
  const std::string_view line = bytes.substr(0, end);
  if (end == std::string_view::npos || !line.starts_with(beginning))
    return fail(Fault::corrupt, "the list of fingerprints is damaged; make it anew");
  bytes.remove_prefix(end + 1);
  return line.substr(beginning.size());
}

Result<uint64_t> number_of(std::string_view& text) {
  uint64_t value = 0;
  size_t digits = 0;
  for (; digits < text.size() && text[digits] >= '0' && text[digits] <= '9' && digits < 12;
       ++digits)
    value = value * 10 + static_cast<uint64_t>(text[digits] - '0');
  if (digits == 0) return fail(Fault::corrupt, "the list of fingerprints has no number there");
  text.remove_prefix(digits);
  return value;
}

#ifdef MARATHON_FINGERPRINTS
asm(".section .rodata\n"
    ".global marathon_fingerprints_begin\n"
    ".global marathon_fingerprints_end\n"
    "marathon_fingerprints_begin:\n"
    ".incbin \"" MARATHON_FINGERPRINTS
    "\"\n"
    "marathon_fingerprints_end:\n"
    ".byte 0\n"
    ".text\n");
extern "C" const char marathon_fingerprints_begin[], marathon_fingerprints_end[];

std::string_view built_in_list() {
  return {marathon_fingerprints_begin,
          static_cast<size_t>(marathon_fingerprints_end - marathon_fingerprints_begin)};
}
#else
std::string_view built_in_list() { return {}; }
#endif

}  // namespace

Result<FingerprintList> read_fingerprints(std::string_view bytes) {
  FingerprintList list;
  if (bytes.empty()) return list;
  TRY(line_of(bytes, list_version));
  std::string_view shape = TRY(line_of(bytes, shape_of_list));
  list.modulus = std::max<uint64_t>(TRY(number_of(shape)), 1);
  std::vector<uint64_t> counts;
  while (!bytes.starts_with('\n')) {
    std::string_view project = TRY(line_of(bytes, "project "));
    counts.push_back(TRY(number_of(project)));
    if (!project.starts_with(' ')) return fail(Fault::corrupt, "a project has no name");
    list.projects.push_back({std::string(project.substr(1)), {}});
  }
  bytes.remove_prefix(1);
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] > bytes.size() / sizeof(uint64_t))
      return fail(Fault::corrupt, "the list of fingerprints is cut short; make it anew");
    std::vector<uint64_t>& hashes = list.projects[i].hashes;
    hashes.resize(counts[i]);
    std::memcpy(hashes.data(), bytes.data(), counts[i] * sizeof(uint64_t));
    bytes.remove_prefix(counts[i] * sizeof(uint64_t));
    if (!std::is_sorted(hashes.begin(), hashes.end()))
      return fail(Fault::corrupt, "the list of fingerprints is not in order; make it anew");
  }
  return list;
}

const FingerprintList& known_fingerprints() {
  static const FingerprintList list =
      read_fingerprints(built_in_list()).value_or(FingerprintList());
  return list;
}

std::vector<uint64_t> fingerprints_of(const SourceFile& file) {
  const std::optional<TokenSyntax> syntax = syntax_of(file.path);
  if (!syntax) return {};
  const std::vector<Normal> tokens = normalised(file, *syntax);
  std::vector<uint64_t> hashes;
  for (size_t i = 0; i + gram <= tokens.size(); ++i) hashes.push_back(hash_of(&tokens[i]));
  return winnowed(hashes);
}

FingerprintReport compare_fingerprints(const std::vector<SourceFile>& files,
                                       const FingerprintList& list) {
  std::set<uint64_t> own;
  for (const SourceFile& file : files) {
    for (const uint64_t hash : fingerprints_of(file)) {
      if (hash % list.modulus == 0) own.insert(hash);
    }
  }
  FingerprintReport report;
  report.compared = static_cast<int64_t>(own.size());
  report.has_list = !list.projects.empty();
  for (const FingerprintList::Project& project : list.projects) {
    const int64_t found = std::count_if(own.begin(), own.end(), [&](uint64_t hash) {
      return std::binary_search(project.hashes.begin(), project.hashes.end(), hash);
    });
    if (found == 0) continue;
    report.matches.push_back(
        {project.name, found, static_cast<double>(found) / static_cast<double>(own.size())});
  }
  std::stable_sort(report.matches.begin(), report.matches.end(),
                   [](const auto& a, const auto& b) { return a.share > b.share; });
  return report;
}

std::string note_on(const FingerprintReport& report) {
  if (!report.has_list)
    return "no list of known sources is built in: nothing was compared with them";
  if (report.compared == 0) return "too short to be compared with known sources";
  if (report.matches.empty())
    return fmt::format("none of its {} fingerprints stands in a known source", report.compared);
  std::string text;
  for (size_t i = 0; i < std::min<size_t>(report.matches.size(), 3); ++i) {
    const FingerprintReport::Match& match = report.matches[i];
    text += i == 0 ? fmt::format("{:.0f} % of its {} fingerprints stand in {}", 100 * match.share,
                                 report.compared, match.project)
                   : fmt::format(", {:.0f} % in {}", 100 * match.share, match.project);
  }
  return text;
}

}  // namespace marathon
