#include "judge/rules.h"

#include "judge/judge_fixture.h"

namespace marathon {
namespace {

using testing::HasSubstr;

const std::string entry = "extern \"C\" int marathon_run(const void*) { return 0; }\n";

struct Case {
  const char* name;
  std::string source;
  std::vector<std::string> flags;
  const char* want;  // part of the sentence; "" when nothing is broken
};

void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }

std::string verdict_of(const Case& one, std::vector<std::string> allowed = {}) {
  const BuildJob job =
      job_of(one.source, one.flags.empty() ? std::vector<std::string>{"-O1"} : one.flags);
  Task task;
  task.rules.allowed_libraries = std::move(allowed);
  const BuildOutcome built = must_build(job);
  const Result<std::optional<std::string>> broken =
      broken_library_rule(binary_rules(task, job), built, false, {});
  if (!broken) return "Error: " + broken.error().what;
  return broken->value_or("");
}

class BinaryRule : public testing::TestWithParam<Case> {};

TEST_P(BinaryRule, IsKeptOrBroken) {
  const std::string said = verdict_of(GetParam());
  if (*GetParam().want)
    EXPECT_THAT(said, HasSubstr(GetParam().want));
  else
    EXPECT_EQ(said, "");
}

INSTANTIATE_TEST_SUITE_P(
    Honest, BinaryRule,
    testing::Values(
        Case{"plain", honest_source, {}, ""},
        Case{"vectors", honest_source, {"-O3", "-march=native"}, ""},
        Case{"fast_math", honest_source, {"-O3", "-ffast-math"}, ""},
        Case{"stripped", honest_source, {"-O1", "-s"}, ""},
        Case{"template_and_vector",
             "#include <vector>\n#include <algorithm>\n#include <string>\n" + entry +
                 "int f(int n) { std::vector<int> v(n); std::sort(v.begin(), v.end());\n"
                 "  return v[0] + (int)std::string(n, 'a').size(); }",
             {},
             ""},
        Case{"clean_ups_stripped",
             "#include <vector>\n" + entry + "int f(int n) { return (int)std::vector<int>(n)[0]; }",
             {"-O1", "-s"},
             ""},
        Case{"virtual_call",
             entry + "struct A { virtual int f() const = 0; };\n"
                     "struct B : A { int f() const override { return 1; } };\n"
                     "const A* make() { static const B b; return &b; }",
             {"-O2"},
             ""},
        Case{"table_of_pointers",
             entry + "static int a() { return 1; } static int b() { return 2; }\n"
                     "extern int (*const steps[])(); int (*const steps[])() = {a, b};",
             {},
             ""},
        Case{"bytes_of_a_syscall_in_a_number",
             entry + "unsigned f() { return 0x90050f90u; }",
             {},
             ""},
        Case{
            "assert", "#include <cassert>\n" + entry + "void f(int n) { assert(n > 0); }", {}, ""}),
    [](const auto& test) { return std::string(test.param.name); });

INSTANTIATE_TEST_SUITE_P(
    Calls, BinaryRule,
    testing::Values(
        Case{"dlopen",
             "#include <dlfcn.h>\n" + entry + "void* f() { return dlopen(\"x\", 1); }",
             {},
             "uses 'dlopen'"},
        Case{"system",
             "#include <cstdlib>\n" + entry + "int f() { return system(\"ls\"); }",
             {},
             "uses 'system'"},
        Case{"exec",
             "#include <unistd.h>\n" + entry + "int f() { return execl(\"a\", \"b\", nullptr); }",
             {},
             "uses 'execl'"},
        Case{"fork", "#include <unistd.h>\n" + entry + "int f() { return fork(); }", {}, "'fork'"},
        Case{"thread",
             "#include <thread>\n" + entry + "void f() { std::thread([] {}).join(); }",
             {},
             "uses '_ZNSt6thread"},
        Case{"clock",
             "#include <chrono>\n" + entry +
                 "long f() { return std::chrono::steady_clock::now().time_since_epoch().count(); }",
             {},
             "uses '_ZNSt6chrono"},
        Case{"open",
             "#include <fcntl.h>\n" + entry + "int f() { return open(\"a\", O_RDONLY); }",
             {},
             "uses 'open'"},
        Case{"file",
             "#include <fstream>\n" + entry + "bool f() { return !!std::ifstream(\"a\"); }",
             {},
             "basic_"},
        Case{"print",
             "#include <cstdio>\n" + entry + "void f(int n) { printf(\"%d\", n); }",
             {},
             "uses 'printf'"},
        Case{"environment_as_a_store",
             "#include <cstdlib>\n" + entry + "int f() { return setenv(\"A\", \"1\", 1); }",
             {},
             "uses 'setenv'"},
        Case{"random_numbers_as_a_store",
             "#include <cstdlib>\n" + entry + "void f() { srand(rand()); }",
             {},
             "rand'"},
        Case{"signal",
             "#include <csignal>\n" + entry + "void f() { signal(SIGSEGV, SIG_IGN); }",
             {},
             "uses 'signal'"},
        Case{"mmap",
             "#include <sys/mman.h>\n" + entry +
                 "void* f() { return mmap(nullptr, 4096, 3, MAP_PRIVATE, -1, 0); }",
             {},
             "uses 'mmap'"},
        Case{"system_call",
             entry + "long f() { long r = 39; asm volatile(\"syscall\" : \"+a\"(r) :: \"rcx\", "
                     "\"r11\"); return r; }",
             {},
             "instruction 'syscall' in '_Z1fv'"},
        Case{"time_stamp",
             entry + "long f() { return __builtin_ia32_rdtsc(); }",
             {},
             "instruction 'rdtsc'"},
        Case{"old_system_call",
             entry + "void f() { asm volatile(\"int $0x80\"); }",
             {},
             "instruction 'int'"}),
    [](const auto& test) { return std::string(test.param.name); });

INSTANTIATE_TEST_SUITE_P(
    Replaces, BinaryRule,
    testing::Values(
        Case{"write",
             entry + "extern \"C\" long write(int, const void*, unsigned long n) { return n; }",
             {},
             "defines 'write', which belongs to the C library"},
        Case{"memcmp",
             entry +
                 "extern \"C\" int memcmp(const void*, const void*, unsigned long) { return 0; }",
             {"-O1", "-fno-builtin"},
             "defines 'memcmp'"},
        Case{"clock_gettime",
             entry + "extern \"C\" int clock_gettime(int, void*) { return 0; }",
             {},
             "defines 'clock_gettime'"},
        Case{"exp_of_libm",
             entry + "extern \"C\" double exp(double) { return 0; }",
             {"-O1", "-fno-builtin"},
             "defines 'exp'"},
        Case{"operator_new",
             "#include <new>\n#include <cstdlib>\n" + entry +
                 "void* operator new(std::size_t n) { return std::malloc(n); }",
             {},
             "defines '_Znwm'"}),
    [](const auto& test) { return std::string(test.param.name); });

INSTANTIATE_TEST_SUITE_P(
    State, BinaryRule,
    testing::Values(
        Case{"global",
             "int calls;\nextern \"C\" int marathon_run() { return ++calls; }",
             {},
             "'calls' is a writable variable of 4 bytes"},
        Case{"in_a_function",
             "extern \"C\" int marathon_run() { static int calls; return ++calls; }",
             {},
             "is a writable variable"},
        Case{"thread_local_one",
             "thread_local int calls;\nextern \"C\" int marathon_run() { return ++calls; }",
             {},
             "'calls' is a writable variable"},
        Case{"without_symbols",
             "static double kept[100];\n"
             "extern \"C\" int marathon_run(int i) { kept[i] += 1; return kept[0] > 3; }",
             {"-O1", "-s"},
             "bytes of writable data outlive a call"},
        Case{"in_the_toolchains_section",
             "__attribute__((section(\".tm_clone_table\"))) long kept = 1;\n"
             "extern \"C\" int marathon_run() { return ++kept; }",
             {},
             "writable"},
        Case{"label_of_an_assembler",
             "asm(\".bss\\nkept: .zero 64\\n.text\");\nextern \"C\" char kept[64] "
             "__attribute__((visibility(\"hidden\")));\n"
             "extern \"C\" int marathon_run() { return ++kept[3]; }",
             {},
             "'kept' is a writable variable"},
        Case{"memory_to_write_and_run",
             entry + "asm(\".section .evil,\\\"awx\\\",@progbits\\n.byte 0xc3\\n.text\");",
             {},
             "can be written and executed"}),
    [](const auto& test) { return std::string(test.param.name); });

INSTANTIATE_TEST_SUITE_P(
    Hooks, BinaryRule,
    testing::Values(
        Case{"constructor",
             entry +
                 "extern \"C\" { __attribute__((constructor)) static void early() { asm(\"\"); } }",
             {},
             "('early')"},
        Case{"named_as_the_compilers",
             entry + "extern \"C\" { __attribute__((constructor)) static void frame_dummy() { "
                     "asm(\"\"); } }",
             {},
             "('frame_dummy')"},
        Case{"named_as_fast_maths",
             entry + "extern \"C\" { __attribute__((constructor)) static void set_fast_math() { "
                     "asm(\"\"); } }",
             {},
             "('set_fast_math')"},
        Case{"second_fast_math",
             entry + "extern \"C\" { __attribute__((constructor)) static void set_fast_math() { "
                     "asm(\"\"); } }",
             {"-O1", "-ffast-math"},
             "('set_fast_math')"},
        Case{"destructor",
             entry +
                 "extern \"C\" { __attribute__((destructor)) static void late() { asm(\"\"); } }",
             {},
             "('late')"},
        Case{"in_init",
             entry + "asm(\".section .init,\\\"ax\\\"\\n.rept 64\\nnop\\n.endr\\n.text\");",
             {},
             "code of its own lies in .init"},
        Case{"stripped_constructor",
             entry +
                 "extern \"C\" { __attribute__((constructor)) static void early() { asm(\"\"); } }",
             {"-O1", "-s"},
             "runs while the library is loaded"},
        Case{"ifunc",
             "static int one() { return 0; }\n"
             "extern \"C\" { static int (*pick())() { return one; }\n"
             "int marathon_run() __attribute__((ifunc(\"pick\"))); }",
             {},
             "is chosen while the library is loaded"}),
    [](const auto& test) { return std::string(test.param.name); });

INSTANTIATE_TEST_SUITE_P(
    Shape, BinaryRule,
    testing::Values(
        Case{"no_entry", "int run() { return 0; }", {}, "exports no marathon_run"},
        Case{
            "entry_is_hidden",
            "extern \"C\" __attribute__((visibility(\"hidden\"))) int marathon_run() { return 0; }",
            {},
            "exports no marathon_run"},
        Case{"entry_is_a_variable",
             "extern \"C\" const int marathon_run; extern \"C\" const int marathon_run = 3;",
             {},
             "exports no marathon_run"},
        Case{"search_path", entry, {"-O1", "-Wl,-rpath,/tmp"}, "for the loader to search"},
        Case{"library", entry, {"-O1", "-Wl,--no-as-needed", "-lcrypto"}, "it links libcrypto"}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(BinaryRules, AnAllowedLibrary) {
  const Case one{"", entry, {"-O1", "-Wl,--no-as-needed", "-lcrypto"}, ""};
  EXPECT_EQ(verdict_of(one, {"libcrypto.so.3"}), "");
}

TEST(BinaryRules, GarbageIsRefusedNotBelieved) {
  EXPECT_THAT(broken_binary_rule({}, "garbage").value_or(""), HasSubstr("cannot be believed"));
}

TEST(Instructions, NamesTheFunction) {
  const std::string listing =
      "0000000000001110 <marathon_run>:\n"
      "    1110:\tpush   %rbp\n"
      "    1111:\trdtscp\n";
  EXPECT_THAT(forbidden_instruction(listing).value_or(""), HasSubstr("'rdtscp' in 'marathon_run'"));
  EXPECT_FALSE(forbidden_instruction("  10:\tint3\n  11:\tlfence\n  12:\tcall 5 <syscall@plt>\n"));
}

// ---- the text

std::string source_verdict(const std::string& pattern, const std::string& text,
                           int64_t max_bytes = 1 << 20) {
  Task task;
  task.rules.forbidden_text = {pattern};
  task.rules.max_source_bytes = max_bytes;
  const Result<std::optional<std::string>> broken =
      broken_source_rule(task, {{"a.h", "int a;\n"}, {"b.cc", text}});
  return broken ? broken->value_or("") : "Error: " + broken.error().what;
}

TEST(SourceRules, FileAndLine) {
  EXPECT_THAT(source_verdict(R"(\bsystem\s*\()", "int x;\n// a comment counts\nsystem (\"ls\");\n"),
              HasSubstr("b.cc:3: 'system (' is forbidden"));
  EXPECT_EQ(source_verdict(R"(\bsystem\s*\()", "int filesystem(int);\n"), "");
}

TEST(SourceRules, AJoinedLineIsOne) {
  EXPECT_THAT(source_verdict("system", "int x;\nsys\\\ntem(0);\r\n"), HasSubstr("b.cc:2"));
  EXPECT_THAT(source_verdict("system", "sys\\\r\nt\\\nem"), HasSubstr("b.cc:1"));
}

TEST(SourceRules, NothingHidesBehindALongLine) {
  for (const size_t spaces : {1990u, 1995u, 1999u, 2001u, 3595u, 3600u, 100'000u}) {
    EXPECT_THAT(source_verdict("system", std::string(spaces, ' ') + "system"), HasSubstr("b.cc:1"))
        << spaces;
  }
  // Recursion of std::regex is bounded by the window, not by the line.
  EXPECT_EQ(source_verdict("(x|y)+z$", std::string(20'000, 'x')), "");
  EXPECT_THAT(source_verdict(R"(system\s*\()",
                             std::string(1990, 'x') + "system" + std::string(5000, ' ') + "("),
              HasSubstr("b.cc:1"));
}

TEST(SourceRules, Size) {
  EXPECT_THAT(source_verdict("q", "int a, b, c;", 10), HasSubstr("the source has 19 bytes"));
}

TEST(SourceRules, ABrokenPatternIsTheTasksFault) {
  EXPECT_THAT(source_verdict("(", "int a;"), HasSubstr("Error: [rules] forbidden_text"));
}

}  // namespace
}  // namespace marathon
