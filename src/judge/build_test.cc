#include "judge/build.h"

#include <sys/stat.h>

#include <atomic>
#include <set>
#include <thread>

#include "base/hash.h"
#include "judge/judge_fixture.h"

namespace marathon {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

BuildOutcome built_in(const fs::path& cache, const BuildJob& job, const fs::path& whole = {}) {
  const Result<BuildOutcome> built = build(job, cache, whole, {});
  EXPECT_TRUE(built) << (built ? "" : built.error().what);
  return built ? *built : BuildOutcome();
}

TEST(Build, OnceThenFromTheCache) {
  const TempFolder folder = temp_folder();
  const BuildJob job = job_of(honest_source);
  const BuildOutcome first = built_in(folder.path(), job), second = built_in(folder.path(), job);
  EXPECT_TRUE(first.ok && !first.cached) << first.reason;
  EXPECT_TRUE(second.ok && second.cached);
  EXPECT_EQ(first.library.string(), second.library.string());
  EXPECT_EQ(second.library_hash, *sha256_file(second.library));
}

TEST(Build, AnythingThatMattersIsInTheKey) {
  const Compiler compiler{"/usr/bin/g++", "12", "g++|12|100|1|cpu", {}};
  const BuildJob job = job_of("int a;");
  BuildJob other_flag = job, other_text = job, other_name = job, moved = job;
  other_flag.flags.emplace_back("-O3");
  other_text.files[0].content += " ";
  other_name.files.push_back({"b.h", ""});
  moved.files.push_back({"b.h", ""});
  moved.files[1].path = "c.h";
  Compiler newer = compiler;
  newer.identity += "1";
  std::set<std::string> keys = {cache_key(job, compiler), cache_key(job, newer)};
  for (const BuildJob* one : {&other_flag, &other_text, &other_name, &moved})
    keys.insert(cache_key(*one, compiler));
  EXPECT_EQ(keys.size(), 6u);
  EXPECT_EQ(cache_key(job, compiler), cache_key(job_of("int a;"), compiler));
}

TEST(Build, ADamagedEntryIsBuiltAnew) {
  const TempFolder folder = temp_folder();
  const BuildJob job = job_of(honest_source);
  const BuildOutcome first = built_in(folder.path(), job);
  fs::permissions(first.library, fs::perms::owner_all);
  put(first.library, "damaged");
  const BuildOutcome second = built_in(folder.path(), job);
  EXPECT_TRUE(second.ok && !second.cached);
  EXPECT_EQ(second.library_hash, *sha256_file(second.library));
  // A crash between mkdir and the files leaves such a folder.
  ASSERT_TRUE(remove_tree(first.library.parent_path()));
  ASSERT_TRUE(make_folders(first.library.parent_path()));
  EXPECT_TRUE(built_in(folder.path(), job).ok);
  EXPECT_TRUE(built_in(folder.path(), job).cached);
}

TEST(Build, WhoLosesTheRaceTakesTheWinners) {
  const TempFolder folder = temp_folder();
  put(folder.path() / "library.so", "bytes");
  const fs::path entry = folder.path() / "entry";
  std::vector<std::thread> threads;
  std::atomic<int> good = 0;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      const Result<BuildOutcome> outcome = publish(entry, folder.path() / "library.so", {});
      good += outcome && outcome->ok && outcome->library == entry / "library.so";
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 8);
  EXPECT_EQ(text_of(entry / "library.so"), "bytes");
  // Nothing is left beside it.
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 2);
}

TEST(Build, AnErrorNamesFileAndLine) {
  const TempFolder folder = temp_folder();
  const BuildOutcome built =
      built_in(folder.path(), job_of("int a;\nint b = unknown;\n"), folder.path() / "build.txt");
  EXPECT_FALSE(built.ok);
  EXPECT_THAT(built.reason, AllOf(HasSubstr("solution.cc:2:9: error:"), HasSubstr("unknown")));
  EXPECT_THAT(built.output, HasSubstr("solution.cc:2"));
  EXPECT_THAT(text_of(folder.path() / "build.txt"), HasSubstr("solution.cc:2"));
}

TEST(Build, TheScratchFolderIsNamedNowhere) {
  const TempFolder folder = temp_folder();
  const BuildOutcome built = built_in(folder.path(), job_of("asm(\"no_such_instruction\");"));
  EXPECT_FALSE(built.ok);
  EXPECT_THAT(built.reason + built.output, Not(HasSubstr("marathon-build-")));
}

TEST(Build, ANameThatNobodyDefines) {
  const TempFolder folder = temp_folder();
  const BuildOutcome built = built_in(
      folder.path(), job_of("extern \"C\" int elsewhere(); int f() { return elsewhere(); }"));
  EXPECT_FALSE(built.ok);
  EXPECT_THAT(built.reason, HasSubstr("elsewhere"));
}

TEST(Build, WarningsOfACachedBuildAreToldAgain) {
  const TempFolder folder = temp_folder();
  const BuildJob job = job_of("int f(int unused) { return 0; }", {"-Wall", "-Wextra"});
  built_in(folder.path(), job);
  const BuildOutcome cached = built_in(folder.path(), job, folder.path() / "build.txt");
  EXPECT_TRUE(cached.cached);
  EXPECT_THAT(cached.output, HasSubstr("unused"));
  EXPECT_THAT(text_of(folder.path() / "build.txt"), HasSubstr("unused"));
}

TEST(Build, OutputOfTenMegabytesInOneLineIsBounded) {
  const TempFolder folder = temp_folder();
  const std::string line(10 << 20, 'x');
  const BuildOutcome built =
      built_in(folder.path(), job_of("#error " + line + "\n"), folder.path() / "build.txt");
  EXPECT_FALSE(built.ok);
  EXPECT_LT(built.output.size(), 100'000u);
  EXPECT_LT(built.reason.size(), 1000u);
  EXPECT_GT(fs::file_size(folder.path() / "build.txt"), 10u << 20);
  EXPECT_LE(fs::file_size(folder.path() / "build.txt"), 16u << 20);
}

// ---- limits

TEST(Build, TimeLimit) {
  const TempFolder folder = temp_folder();
  // 2^30 instantiations.
  BuildJob job = job_of(
      "template <int n, int m> struct S { static const long v = S<n - 1, 2 * m>::v + S<n - 1, 2 * "
      "m + "
      "1>::v; };\ntemplate <int m> struct S<0, m> { static const long v = 1; };\n"
      "long f() { return S<30, 0>::v; }");
  job.timeout_s = 1;
  const BuildOutcome built = built_in(folder.path(), job);
  EXPECT_FALSE(built.ok);
  EXPECT_THAT(built.reason, HasSubstr("took longer than 1 s"));
}

TEST(Build, MemoryLimit) {
  const TempFolder folder = temp_folder();
  BuildJob job = job_of(
      "template <int n, int m> struct S { static const long v = S<n - 1, 2 * m>::v + S<n - 1, 2 * "
      "m + "
      "1>::v; };\ntemplate <int m> struct S<0, m> { static const long v = 1; };\n"
      "long f() { return S<24, 0>::v; }");
  job.max_memory_bytes = 128 << 20;
  const BuildOutcome built = built_in(folder.path(), job);
  EXPECT_FALSE(built.ok);
  EXPECT_THAT(built.reason, HasSubstr("used more than 128 MB"));
}

TEST(Build, StopEndsIt) {
  const TempFolder folder = temp_folder();
  std::stop_source stop;
  stop.request_stop();
  const Result<BuildOutcome> built =
      build(job_of(honest_source), folder.path(), {}, stop.get_token());
  ASSERT_FALSE(built);
  EXPECT_EQ(built.error().fault, Fault::cancelled);
}

// ---- what the compiler may read

class Reads : public testing::TestWithParam<std::string> {};

TEST_P(Reads, NothingButItsOwnFolderAndTheToolchain) {
  const TempFolder folder = temp_folder();
  put(folder.path() / "task/oracle.cc", "int answer = 42;\n");
  std::string source = GetParam();
  for (const auto& [mark, text] :
       {std::pair<std::string, std::string>{"@", (folder.path() / "task/oracle.cc").string()},
        {"~", fs::relative(folder.path() / "task/oracle.cc", folder.path() / "a").string()}}) {
    for (size_t at = source.find(mark); at != std::string::npos; at = source.find(mark))
      source.replace(at, mark.size(), text);
  }
  const BuildOutcome built = built_in(folder.path() / "cache", job_of(source));
  EXPECT_FALSE(built.ok);
  EXPECT_FALSE(built.reason.empty());
}

INSTANTIATE_TEST_SUITE_P(
    All, Reads,
    testing::Values("#include \"@\"\n", "#include \"/proc/self/environ\"\n",
                    "#include \"/etc/passwd\"\n", "asm(\".incbin \\\"@\\\"\");\n",
                    "asm(\".include \\\"@\\\"\");\n",
                    "#if !__has_include(\"@\")\n#error cannot be read\n#endif\n"
                    "#if __has_embed(\"@\")\n#endif\n#include \"@\"\n"));

TEST(Build, ATaskWhereTheCompilerMayReadIsRefused) {
  const TempFolder folder = temp_folder();
  BuildJob job = job_of("int a;");
  job.secret_folder = "/usr/lib/marathon/tasks/kda";
  const Result<BuildOutcome> built = build(job, folder.path(), {}, {});
  ASSERT_FALSE(built);
  EXPECT_EQ(built.error().fault, Fault::invalid);
  EXPECT_THAT(built.error().what, HasSubstr("copy it to another place"));
}

TEST(Build, SourcesStayInTheirFolder) {
  const TempFolder folder = temp_folder();
  for (const char* path : {"../outside.h", "/tmp/marathon-outside.h", "a/../../b.h"}) {
    BuildJob job = job_of("int a;");
    job.files.push_back({path, "text"});
    EXPECT_FALSE(build(job, folder.path(), {}, {})) << path;
  }
}

// ---- the compiler

TEST(Compiler, FoundAndNamed) {
  const Result<Compiler> compiler = find_compiler();
  ASSERT_TRUE(compiler) << compiler.error().what;
  EXPECT_THAT(compiler->version, HasSubstr("g++"));
}

TEST(Compiler, CxxThatIsNotThere) {
  const EnvironmentVariable cxx("CXX", "no-such-compiler-anywhere");
  const Result<Compiler> compiler = find_compiler();
  ASSERT_FALSE(compiler);
  EXPECT_EQ(compiler.error().fault, Fault::not_found);
  EXPECT_THAT(compiler.error().what, HasSubstr("apt-get install g++"));
}

TEST(Compiler, AWrapperOutsideOfEveryInstallation) {
  const TempFolder folder = temp_folder();
  put_program(folder.path() / "g++", "exec /usr/bin/g++ \"$@\"\n");
  const EnvironmentVariable cxx("CXX", (folder.path() / "g++").string());
  const Result<Compiler> compiler = find_compiler();
  ASSERT_FALSE(compiler);
  EXPECT_THAT(compiler.error().what, HasSubstr("set CXX to the compiler itself"));
}

TEST(Compiler, AnInstallationOfItsOwn) {
  const TempFolder folder = temp_folder();
  put_program(folder.path() / "bin/g++", "exec /usr/bin/g++ \"$@\"\n");
  ASSERT_TRUE(make_folders(folder.path() / "lib/gcc"));
  const EnvironmentVariable cxx("CXX", (folder.path() / "bin/g++").string());
  const Result<Compiler> compiler = find_compiler();
  ASSERT_TRUE(compiler) << compiler.error().what;
  EXPECT_EQ(compiler->prefix.string(), fs::canonical(folder.path()).string());
  const BuildOutcome built = built_in(folder.path() / "cache", job_of(honest_source));
  EXPECT_TRUE(built.ok) << built.reason;
}

TEST(Helper, AMissingProgramSaysHowToGetIt) {
  const EnvironmentVariable folder("MARATHON_BIN", "/nowhere");
  const Result<fs::path> program = helper_program("marathon-judge");
  ASSERT_FALSE(program);
  EXPECT_THAT(program.error().what, HasSubstr("./build.sh"));
}

// Its own exit code must not be taken for that of a jail that could not be set up.
TEST(Jail, ExitCodesOfTheProgramAreItsOwn) {
  const TempFolder folder = temp_folder();
  ProcessSpec spec;
  spec.argv = {"/bin/sh", "-c", "exit 125"};
  spec.environment = clean_environment(folder.path());
  Jail jail = toolchain_jail();
  jail.allow_exec = true;
  const Result<ProcessResult> result = run_jailed(spec, jail, folder.path(), false, {});
  ASSERT_TRUE(result) << result.error().what;
  EXPECT_EQ(result->exit_code, 125);
}

}  // namespace
}  // namespace marathon
