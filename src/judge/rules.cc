// Rules on the binary: libraries, symbols, state, code that runs without being called.
#include "judge/rules.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <unordered_set>

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

// Functions and variables of libc that have no place in a kernel: other code, other processes,
// files, clocks, signals, memory maps, an early way out, and stores that outlive a call.
// A name that ends in * stands for every name that begins so.
constexpr std::string_view forbidden_names =
    // other code
    "dlopen dlmopen dlsym dlvsym dladdr dl_iterate_phdr _dl_* __libc_dl* "
    // other processes and threads
    "system popen exec* fexecve posix_spawn* fork vfork _Fork clone clone3 __clone daemon "
    "pthread_create thrd_create pthread_atfork __register_atfork pthread_kill pthread_exit "
    "pthread_setspecific pthread_setaffinity* sched_* setpriority nice setsid setpgid "
    "ptrace process_vm_* kill killpg tgkill raise prctl arch_prctl syscall "
    // sockets and pipes
    "socket* connect bind listen accept* send* recv* pipe pipe2 eventfd* getaddrinfo "
    // files and streams
    "open open64 openat* creat* fopen* freopen* fdopen opendir fdopendir readdir* read pread* "
    "__read* __pread* write pwrite* writev readv unlink* rename* mkdir* rmdir link linkat symlink* "
    "truncate* ftruncate* dup dup2 dup3 close fcntl* ioctl memfd_create shm_* sem_open "
    "printf vprintf fprintf vfprintf dprintf puts putchar fputs fputc fwrite fread fgets scanf "
    "fscanf __printf_chk __fprintf_chk __vfprintf_chk perror stdin stdout stderr "
    // clocks and timers
    "clock_* gettimeofday time times clock ftime timespec_get nanosleep usleep sleep setitimer "
    "getitimer timer_* timerfd_* alarm ualarm poll ppoll select pselect epoll_* getrusage "
    // signals
    "sigaction __sigaction signal __sysv_signal bsd_signal sigaltstack sigprocmask "
    "pthread_sigmask sigwait* sigqueue sigsuspend signalfd "
    // memory maps
    "mmap* mremap munmap mprotect pkey_* madvise posix_madvise mlock* munlock* msync mincore "
    "remap_file_pages brk sbrk shmat shmget malloc_trim mallopt "
    // an early way out
    "exit _exit _Exit quick_exit at_quick_exit atexit on_exit __cxa_atexit __cxa_thread_atexit* "
    "setjmp _setjmp __sigsetjmp longjmp _longjmp siglongjmp __longjmp_chk getcontext setcontext "
    "makecontext swapcontext "
    // the environment and other stores
    "getenv secure_getenv setenv putenv unsetenv clearenv environ __environ _environ getauxval "
    "srand rand srandom random initstate setstate drand48 erand48 srand48 lrand48 mrand48 "
    "setlocale strtok uselocale fesetround fesetenv feupdateenv feenableexcept "
    "getpid gettid getppid uname gethostname getcwd chdir ";

// Classes of libstdc++ that start threads, open files, print or read clocks.
constexpr std::array<std::string_view, 14> forbidden_classes = {"_ZNSt6thread",
                                                                "_ZNSt13basic_filebuf",
                                                                "_ZNSt14basic_ifstream",
                                                                "_ZNSt14basic_ofstream",
                                                                "_ZNSt13basic_fstream",
                                                                "_ZNSt6chrono3_V2",
                                                                "_ZNSt10filesystem",
                                                                "_ZNSt13random_device",
                                                                "_ZNSt13__future_base",
                                                                "_ZSt4cout",
                                                                "_ZSt4cerr",
                                                                "_ZSt3cin",
                                                                "_ZNSt8ios_base4Init",
                                                                "_ZNSt18condition_variable"};

// Its own definition of one of these replaces the one of the whole process.
constexpr std::array<std::string_view, 4> allocation_operators = {"_Znw", "_Zna", "_Zdl", "_Zda"};

// completed.0 and __dso_handle of crtbegin, with their padding; and the pointer to the personality
// that code with clean-ups (any std::vector) needs. Eight bytes that a candidate could misuse: what
// it could keep there is no answer, and every timed output is checked.
constexpr uint64_t own_writable_bytes = 16, exception_bytes = 16;
constexpr std::string_view personality = "__gxx_personality_v0",
                           personality_pointer = "DW.ref.__gxx_personality_v0";
// crti.o and crtn.o have 23 and 9 bytes there (27 and 13 with -fcf-protection, 24 and 20 on
// AArch64); a function put into these sections runs while the library is loaded or closed.
constexpr uint64_t own_init_bytes = 32, own_fini_bytes = 24;

class NameSet {
 public:
  explicit NameSet(std::string_view words) {
    while (!words.empty()) {
      const std::string_view word = words.substr(0, words.find(' '));
      if (word.ends_with('*'))
        prefixes_.push_back(word.substr(0, word.size() - 1));
      else
        whole_.insert(word);
      words.remove_prefix(std::min(words.size(), word.size() + 1));
    }
  }
  bool holds(std::string_view name) const {
    return whole_.contains(name) ||
           std::any_of(prefixes_.begin(), prefixes_.end(),
                       [&](std::string_view prefix) { return name.starts_with(prefix); });
  }

 private:
  std::unordered_set<std::string_view> whole_;
  std::vector<std::string_view> prefixes_;
};

// "open@GLIBC_2.2.5" and "open" are one.
std::string_view bare(std::string_view name) { return name.substr(0, name.find('@')); }

bool is_forbidden(std::string_view name) {
  static const NameSet names(forbidden_names);
  return names.holds(name) ||
         std::any_of(forbidden_classes.begin(), forbidden_classes.end(),
                     [&](std::string_view prefix) { return name.starts_with(prefix); });
}

// Ours has the same libc: what it finds there under this name, the candidate would replace.
bool belongs_to_libc(const std::string& name) {
  if (std::any_of(allocation_operators.begin(), allocation_operators.end(),
                  [&](std::string_view prefix) { return name.starts_with(prefix); }))
    return true;
  if (name.starts_with("_Z") || name == "_init" || name == "_fini") return false;
  static void* const libraries[] = {::dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD),
                                    ::dlopen("libm.so.6", RTLD_LAZY | RTLD_NOLOAD)};
  return std::any_of(std::begin(libraries), std::end(libraries),
                     [&](void* library) { return library && ::dlsym(library, name.c_str()); });
}

bool is_toolchains_own(std::string_view name) {
  return name.starts_with("completed.") || name == "__dso_handle" || name == "__TMC_END__" ||
         name == "_edata" || name == "__bss_start" || name == "_end" || name == "__data_start" ||
         name == "data_start";
}

std::optional<std::string> broken_needed_rule(const BinaryRules& rules, const ElfFacts& facts) {
  if (facts.search_path)
    return "it names folders or libraries for the loader to search: a kernel brings no libraries";
  for (const std::string& library : facts.needed) {
    const bool own =
        std::find(own_libraries.begin(), own_libraries.end(), library) != own_libraries.end();
    const std::vector<std::string>& allowed = rules.allowed_libraries;
    if (own || std::find(allowed.begin(), allowed.end(), library) != allowed.end()) continue;
    return fmt::format(
        "it links {}: the task allows no third-party library ([rules] allowed_libraries)", library);
  }
  return std::nullopt;
}

std::optional<std::string> broken_symbol_rule(const ElfFacts& facts) {
  for (const ElfSymbol& symbol : facts.dynamic) {
    const std::string name(bare(symbol.name));
    if (symbol.defined && (is_forbidden(name) || belongs_to_libc(name)))
      return fmt::format("it defines '{}', which belongs to the C library: rename it", name);
    if (!symbol.defined && is_forbidden(name))
      return fmt::format("it uses '{}': a kernel computes and does nothing else", name);
    if (symbol.ifunc)
      return fmt::format(
          "'{}' is chosen while the library is loaded (target_clones or ifunc): write one version, "
          "it is built for this machine",
          name);
  }
  return std::nullopt;
}

std::optional<std::string> broken_state_rule(const ElfFacts& facts) {
  for (const ElfSymbol& symbol : facts.all) {
    if (!symbol.named || !symbol.writable || is_toolchains_own(symbol.name)) continue;
    if (symbol.name == personality_pointer && symbol.size == 8) continue;
    return fmt::format(
        "'{}' is a writable variable{} that outlives a call: a kernel keeps no state (use the "
        "workspace; make tables constexpr)",
        symbol.name, symbol.size ? fmt::format(" of {} bytes", symbol.size) : "");
  }
  const bool has_clean_ups =
      std::any_of(facts.dynamic.begin(), facts.dynamic.end(),
                  [](const ElfSymbol& symbol) { return bare(symbol.name) == personality; });
  if (facts.writable_bytes <= own_writable_bytes + (has_clean_ups ? exception_bytes : 0))
    return std::nullopt;
  return fmt::format("{} bytes of writable data outlive a call: a kernel keeps no state",
                     facts.writable_bytes);
}

// The compiler's own hooks may each stand there once; a candidate's function of the same name is
// then the second one.
std::optional<std::string> foreign_hook(const ElfFacts& facts,
                                        const std::vector<std::string>& hooks,
                                        std::vector<std::string_view> own) {
  // Without a symbol table there are no names, and only their number can be right.
  if (!facts.has_symbol_table && hooks.size() <= own.size()) return std::nullopt;
  for (const std::string& hook : hooks) {
    const auto found = std::find(own.begin(), own.end(), hook);
    if (found == own.end()) return hook;
    own.erase(found);
  }
  return std::nullopt;
}

std::optional<std::string> broken_hook_rule(const BinaryRules& rules, const ElfFacts& facts) {
  std::vector<std::string_view> own = {"frame_dummy"};
  if (rules.fast_math) own.emplace_back("set_fast_math");
  if (const std::optional<std::string> hook = foreign_hook(facts, facts.constructors, own)) {
    return fmt::format(
        "code runs while the library is loaded ('{}'): work belongs inside marathon_run (a global "
        "object with a constructor does that, and so does <iostream>)",
        *hook);
  }
  if (const std::optional<std::string> hook =
          foreign_hook(facts, facts.destructors, {"__do_global_dtors_aux"})) {
    return fmt::format("code runs when the library is closed ('{}'): work belongs in marathon_run",
                       *hook);
  }
  if (facts.init_code_bytes > own_init_bytes || facts.fini_code_bytes > own_fini_bytes)
    return "code of its own lies in .init or .fini and runs while the library is loaded";
  return std::nullopt;
}

std::optional<std::string> broken_entry_rule(const ElfFacts& facts) {
  const bool has_entry =
      std::any_of(facts.dynamic.begin(), facts.dynamic.end(), [](const ElfSymbol& symbol) {
        return symbol.defined && symbol.function && symbol.name == "marathon_run";
      });
  if (has_entry) return std::nullopt;
  return "it exports no marathon_run: define it with extern \"C\" as marathon_kernel.h declares it";
}

}  // namespace

BinaryRules binary_rules(const Task& task, const BuildJob& job) {
  BinaryRules rules;
  rules.allowed_libraries = task.rules.allowed_libraries;
  rules.fast_math = std::any_of(job.flags.begin(), job.flags.end(), [](const std::string& flag) {
    return flag == "-ffast-math" || flag == "-Ofast" || flag == "-funsafe-math-optimizations";
  });
  return rules;
}

std::optional<std::string> broken_host_library_rule(const BinaryRules& rules,
                                                    std::string_view bytes) {
  const Result<ElfFacts> facts = read_elf(bytes);
  if (!facts) return "the built library cannot be believed: " + facts.error().what;
  BinaryRules with_runtime = rules;  // what nvcc links for its static runtime
  for (const char* library : {"libdl.so.2", "libpthread.so.0", "librt.so.1"})
    with_runtime.allowed_libraries.emplace_back(library);
  if (std::optional<std::string> broken = broken_needed_rule(with_runtime, *facts)) return broken;
  return broken_entry_rule(*facts);
}

std::optional<std::string> broken_binary_rule(const BinaryRules& rules, std::string_view bytes) {
  const Result<ElfFacts> facts = read_elf(bytes);
  if (!facts) return "the built library cannot be believed: " + facts.error().what;
  if (facts->text_relocations)
    return "the library patches its own code when it is loaded (text relocations)";
  if (facts->writable_code) return "the library has memory that can be written and executed";
  if (std::optional<std::string> broken = broken_needed_rule(rules, *facts)) return broken;
  if (std::optional<std::string> broken = broken_symbol_rule(*facts)) return broken;
  if (std::optional<std::string> broken = broken_state_rule(*facts)) return broken;
  if (std::optional<std::string> broken = broken_hook_rule(rules, *facts)) return broken;
  return broken_entry_rule(*facts);
}

}  // namespace marathon
