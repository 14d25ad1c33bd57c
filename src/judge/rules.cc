#include "judge/rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <regex>

#include "base/file.h"
#include "judge/elf.h"

namespace marathon {

namespace {

// Libraries that g++ itself brings along.
constexpr std::array<std::string_view, 7> own_libraries = {"libc.so.6",
                                                           "libm.so.6",
                                                           "libstdc++.so.6",
                                                           "libgcc_s.so.1",
                                                           "libmvec.so.1",
                                                           "ld-linux-x86-64.so.2",
                                                           "ld-linux-aarch64.so.1"};

// Functions that have no place in a kernel: other code, other processes, files, clocks, signals,
// memory maps, an early way out. A name that ends in * stands for every name that begins so.
constexpr std::array<std::string_view, 89> forbidden_functions = {"dlopen",
                                                                  "dlmopen",
                                                                  "dlsym",
                                                                  "dlvsym",
                                                                  "dl_iterate_phdr",
                                                                  "system",
                                                                  "popen",
                                                                  "exec*",
                                                                  "posix_spawn*",
                                                                  "fork",
                                                                  "vfork",
                                                                  "_Fork",
                                                                  "clone",
                                                                  "clone3",
                                                                  "pthread_create",
                                                                  "thrd_create",
                                                                  "pthread_atfork",
                                                                  "socket*",
                                                                  "connect",
                                                                  "bind",
                                                                  "send*",
                                                                  "recv*",
                                                                  "ptrace",
                                                                  "process_vm_*",
                                                                  "syscall",
                                                                  "open",
                                                                  "open64",
                                                                  "openat*",
                                                                  "creat*",
                                                                  "fopen*",
                                                                  "freopen*",
                                                                  "fdopen",
                                                                  "opendir",
                                                                  "readdir*",
                                                                  "read",
                                                                  "pread*",
                                                                  "write",
                                                                  "pwrite*",
                                                                  "writev",
                                                                  "readv",
                                                                  "unlink*",
                                                                  "rename*",
                                                                  "mkdir*",
                                                                  "memfd_create",
                                                                  "shm_*",
                                                                  "clock_gettime",
                                                                  "gettimeofday",
                                                                  "time",
                                                                  "clock",
                                                                  "clock_nanosleep",
                                                                  "nanosleep",
                                                                  "usleep",
                                                                  "sleep",
                                                                  "sigaction",
                                                                  "signal",
                                                                  "sigaltstack",
                                                                  "setitimer",
                                                                  "timer_*",
                                                                  "alarm",
                                                                  "prctl",
                                                                  "getenv",
                                                                  "secure_getenv",
                                                                  "mmap*",
                                                                  "mremap",
                                                                  "munmap",
                                                                  "mprotect",
                                                                  "madvise",
                                                                  "remap_file_pages",
                                                                  "kill",
                                                                  "tgkill",
                                                                  "raise",
                                                                  "exit",
                                                                  "_exit",
                                                                  "_Exit",
                                                                  "quick_exit",
                                                                  "atexit",
                                                                  "on_exit",
                                                                  "setjmp",
                                                                  "_setjmp",
                                                                  "__sigsetjmp",
                                                                  "longjmp",
                                                                  "siglongjmp",
                                                                  "__longjmp_chk",
                                                                  "sched_*",
                                                                  "setsid",
                                                                  "setpriority",
                                                                  "pthread_kill",
                                                                  "pthread_exit"};

// Classes of libstdc++ that start threads, open files or read clocks.
constexpr std::array<std::string_view, 6> forbidden_classes = {
    "_ZNSt6thread",          "_ZNSt13basic_filebuf", "_ZNSt14basic_ifstream",
    "_ZNSt14basic_ofstream", "_ZNSt6chrono3_V2",     "_ZNSt10filesystem"};

constexpr std::array<std::string_view, 2> own_constructors = {"frame_dummy", "set_fast_math"};

// completed.0 and __dso_handle of crtbegin, and padding.
constexpr uint64_t own_writable_bytes = 64;

bool matches(std::string_view name, std::string_view pattern) {
  if (pattern.ends_with('*')) return name.starts_with(pattern.substr(0, pattern.size() - 1));
  return name == pattern;
}

// "open@GLIBC_2.2.5" and "open" are one.
std::string_view bare(std::string_view name) { return name.substr(0, name.find('@')); }

bool is_forbidden(std::string_view name) {
  return std::any_of(forbidden_functions.begin(), forbidden_functions.end(),
                     [&](std::string_view p) { return matches(name, p); }) ||
         std::any_of(forbidden_classes.begin(), forbidden_classes.end(),
                     [&](std::string_view p) { return name.starts_with(p); });
}

bool is_toolchains_own(const ElfSymbol& symbol) {
  const std::string_view name = symbol.name;
  return name.starts_with("completed.") || name == "__dso_handle" || name == "__TMC_END__" ||
         name == "_DYNAMIC" || name == "_GLOBAL_OFFSET_TABLE_" ||
         name.starts_with("__frame_dummy_init_array") || name.starts_with("__do_global_dtors");
}

std::optional<std::string> broken_symbol_rule(const ElfFacts& facts) {
  for (const ElfSymbol& symbol : facts.dynamic) {
    const std::string_view name = bare(symbol.name);
    if (!is_forbidden(name)) continue;
    return symbol.defined
               ? fmt::format("it defines '{}', which belongs to the C library", name)
               : fmt::format("it calls '{}': a kernel computes and does nothing else", name);
  }
  return std::nullopt;
}

std::optional<std::string> broken_state_rule(const ElfFacts& facts) {
  for (const ElfSymbol& symbol : facts.all) {
    if (!symbol.defined || !symbol.object || !symbol.writable || symbol.size == 0 ||
        is_toolchains_own(symbol))
      continue;
    return fmt::format(
        "'{}' is a writable variable of {} bytes that outlives a call: a kernel keeps no state "
        "(use the workspace; "
        "make tables const)",
        symbol.name, symbol.size);
  }
  if (facts.writable_bytes > own_writable_bytes) {
    return fmt::format("{} bytes of writable data outlive a call: a kernel keeps no state",
                       facts.writable_bytes);
  }
  for (const std::string& constructor : facts.constructors) {
    if (std::find(own_constructors.begin(), own_constructors.end(), constructor) !=
        own_constructors.end())
      continue;
    return fmt::format(
        "code that runs when the library is loaded ('{}'): work belongs inside marathon_run",
        constructor);
  }
  return std::nullopt;
}

std::optional<std::string> broken_library_rule(const Task& task, const ElfFacts& facts) {
  for (const std::string& library : facts.needed) {
    const bool own =
        std::find(own_libraries.begin(), own_libraries.end(), library) != own_libraries.end();
    const std::vector<std::string>& allowed = task.rules.allowed_libraries;
    if (own || std::find(allowed.begin(), allowed.end(), library) != allowed.end()) continue;
    return fmt::format(
        "it links {}: the task allows no third-party library ([rules] allowed_libraries)", library);
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> broken_source_rule(const Task& task,
                                              const std::vector<SourceFile>& editable) {
  int64_t bytes = 0;
  for (const SourceFile& file : editable) bytes += static_cast<int64_t>(file.content.size());
  if (bytes > task.rules.max_source_bytes) {
    return fmt::format("the source has {} bytes; the task allows {} ([rules] max_source_bytes)",
                       bytes, task.rules.max_source_bytes);
  }
  for (const std::string& pattern : task.rules.forbidden_text) {
    const std::regex expression(pattern, std::regex::ECMAScript | std::regex::optimize);
    for (const SourceFile& file : editable) {
      int64_t line_number = 0;
      for (size_t at = 0; at < file.content.size();) {
        const size_t end = std::min(file.content.find('\n', at), file.content.size());
        ++line_number;
        // Very long lines are cut: std::regex recurses and would overflow the stack.
        const std::string line = file.content.substr(at, std::min<size_t>(end - at, 4000));
        std::smatch match;
        if (std::regex_search(line, match, expression)) {
          return fmt::format("{}:{}: '{}' is forbidden by the task ([rules] forbidden_text)",
                             file.path.string(), line_number, match.str());
        }
        at = end + 1;
      }
    }
  }
  return std::nullopt;
}

Result<std::optional<std::string>> broken_binary_rule(const Task& task,
                                                      const std::filesystem::path& library) {
  const std::string bytes = TRY(read_file(library));
  const Result<ElfFacts> facts = read_elf(bytes);
  if (!facts)
    return std::optional<std::string>("the built library cannot be read: " + facts.error().what);
  if (facts->text_relocations)
    return std::optional<std::string>(
        "the library patches its own code when it is loaded (text relocations)");
  if (facts->writable_code)
    return std::optional<std::string>("the library has memory that can be written and executed");
  for (const std::optional<std::string>& broken :
       {broken_library_rule(task, *facts), broken_symbol_rule(*facts), broken_state_rule(*facts)}) {
    if (broken) return broken;
  }
  const bool has_entry = std::any_of(
      facts->dynamic.begin(), facts->dynamic.end(),
      [](const ElfSymbol& symbol) { return symbol.defined && symbol.name == "marathon_run"; });
  if (!has_entry) {
    return std::optional<std::string>(
        "it exports no marathon_run: define it with extern \"C\" as marathon_kernel.h declares it");
  }
  return std::optional<std::string>();
}

}  // namespace marathon
