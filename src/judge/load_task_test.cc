#include <nlohmann/json.hpp>

#include "judge/bench_call.h"
#include "judge/judge_fixture.h"

namespace marathon {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string changed(std::string text, std::string_view from, std::string_view to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(LoadTask, AGoodOne) {
  const TempFolder folder = temp_folder();
  put_kernel_task(folder.path());
  const LoadedTask task = must_load(folder.path());
  EXPECT_EQ(task.task.name, "scale");
  EXPECT_EQ(task.folder.string(), folder.path().string());
  EXPECT_EQ(task.hash.size(), 64u);
}

// ---- tasks for a GPU: sources of one language are enough

void put_gpu_task(const fs::path& folder) {
  put(folder / "task.toml", R"(schema = 1
name = "scale"
kind = "kernel"
language = ["cuda", "triton"]
[files]
editable = ["solution.cu", "tile.cc", "solution.py"]
[build]
sources = ["solution.cu", "tile.cc", "solution.py"]
[dims]
names = ["N"]
[[tensor]]
name = "x"
role = "input"
dtype = "fp32"
shape = ["N"]
[[tensor]]
name = "y"
role = "output"
dtype = "fp32"
shape = ["N"]
[[shape]]
name = "N1000"
set = "listed"
dims = { N = 1000 }
)");
  put(folder / "oracle.cu", "");
  for (const char* file : {"start/solution.cu", "start/tile.cc"}) put(folder / file, "");
  put(folder / "baseline/solution.py", "");
}

std::string loading(const fs::path& folder) {
  const Result<LoadedTask> task = load_task(folder);
  return task ? "" : task.error().what;
}

TEST(LoadTask, SourcesOfOneLanguageAreEnough) {
  const TempFolder folder = temp_folder();
  put_gpu_task(folder.path());
  EXPECT_EQ(loading(folder.path()), "");
  fs::remove(folder.path() / "start/tile.cc");
  EXPECT_THAT(loading(folder.path()), HasSubstr("there is no file 'start/tile.cc'"));
  fs::remove(folder.path() / "start/solution.cu");
  put(folder.path() / "start/solution.py", "");
  EXPECT_EQ(loading(folder.path()), "");
  fs::remove(folder.path() / "start/solution.py");
  EXPECT_THAT(loading(folder.path()), HasSubstr("there is no file 'start/solution.cu'"));
}

TEST(LoadTask, ABaselineMayBeAPythonModule) {
  const TempFolder folder = temp_folder();
  put_gpu_task(folder.path());
  fs::remove(folder.path() / "baseline/solution.py");
  EXPECT_THAT(loading(folder.path()), HasSubstr("there is no file 'baseline/solution.cu'"));
  put(folder.path() / "baseline/baseline.py", "");
  EXPECT_EQ(loading(folder.path()), "");
}

TEST(LoadTask, TheOraclesOfAGpuTask) {
  const TempFolder folder = temp_folder();
  put_gpu_task(folder.path());
  const std::string text = text_of(folder.path() / "task.toml");
  put(folder.path() / "task.toml", changed(text, "[files]", "[files]\ncpu_oracle = \"oracle.cc\""));
  EXPECT_THAT(loading(folder.path()), HasSubstr("the oracle for the CPU ([files] cpu_oracle)"));
  put(folder.path() / "oracle.cc", "");
  EXPECT_EQ(loading(folder.path()), "");
  fs::remove(folder.path() / "oracle.cu");
  EXPECT_THAT(loading(folder.path()), HasSubstr("there is no file 'oracle.cu'"));
}

TEST(LoadTask, TheHashIsOverEveryFileThatIsNotHidden) {
  const TempFolder folder = temp_folder();
  put_kernel_task(folder.path());
  const std::string first = must_load(folder.path()).hash;
  put(folder.path() / ".git/index", "whatever");
  put(folder.path() / "start/.solution.cc.swp", "whatever");
  EXPECT_EQ(must_load(folder.path()).hash, first);
  put(folder.path() / "README.md", "text");
  const std::string second = must_load(folder.path()).hash;
  EXPECT_NE(second, first);
  fs::rename(folder.path() / "README.md", folder.path() / "READYOU.md");
  EXPECT_NE(must_load(folder.path()).hash, second);
}

TEST(LoadTask, EveryMissingFileIsNamed) {
  const TempFolder folder = temp_folder();
  put_kernel_task(folder.path());
  for (const char* file : {"oracle.cc", "scale.h", "baseline/solution.cc", "start/params.toml"})
    fs::remove(folder.path() / file);
  std::vector<Diagnostic> diagnostics;
  const Result<LoadedTask> task = load_task(folder.path(), &diagnostics);
  ASSERT_FALSE(task);
  EXPECT_EQ(task.error().fault, Fault::invalid);
  EXPECT_THAT(task.error().what,
              AllOf(HasSubstr("'oracle.cc'"), HasSubstr("'scale.h'"),
                    HasSubstr("'baseline/solution.cc'"), HasSubstr("params.toml")));
  EXPECT_GE(diagnostics.size(), 4u);
}

TEST(LoadTask, NoTaskThere) {
  const TempFolder folder = temp_folder();
  const Result<LoadedTask> task = load_task(folder.path());
  ASSERT_FALSE(task);
  EXPECT_EQ(task.error().fault, Fault::not_found);
  EXPECT_THAT(task.error().what, HasSubstr("name the folder that holds task.toml"));
}

TEST(LoadTask, AGraderMustNotBeEditable) {
  const TempFolder folder = temp_folder();
  const std::string text =
      "schema = 1\nname = \"c\"\nkind = \"command\"\n[files]\neditable = [\"*.sh\"]\n"
      "[command]\nmeasure = [\"./measure.sh\"]\nmetric = { regex = '(\\d+)' }\n";
  put(folder.path() / "task.toml", text);
  put_program(folder.path() / "start/measure.sh", "echo 1\n");
  const Result<LoadedTask> task = load_task(folder.path());
  ASSERT_FALSE(task);
  EXPECT_THAT(task.error().what, HasSubstr("a candidate would grade itself"));
  // Not editable and not frozen: it works, and a candidate's programs could change it.
  put(folder.path() / "task.toml", changed(text, "*.sh", "*.txt"));
  put(folder.path() / "start/a.txt", "");
  std::vector<Diagnostic> diagnostics;
  EXPECT_TRUE(load_task(folder.path(), &diagnostics));
  ASSERT_EQ(diagnostics.size(), 1u);
  EXPECT_TRUE(diagnostics[0].warning);
  EXPECT_THAT(diagnostics[0].message, HasSubstr("is not frozen"));
}

// ---- candidates

class Candidate : public testing::Test {
 protected:
  void SetUp() override {
    put_kernel_task(folder_.path() / "task");
    task_ = must_load(folder_.path() / "task");
    ASSERT_TRUE(copy_tree(folder_.path() / "task/start", own()));
  }
  fs::path own() const { return folder_.path() / "own"; }
  Result<Implementation> read() const {
    return read_implementation(task_, own(), Origin::candidate, {});
  }
  std::string refusal() const {
    const Result<Implementation> made = read();
    if (made) return "";
    EXPECT_EQ(made.error().fault, Fault::invalid);
    return made.error().what;
  }

  TempFolder folder_ = temp_folder();
  LoadedTask task_;
};

TEST_F(Candidate, FlagsOfItsParameters) {
  put(own() / "params.toml", "UNROLL = 1\nFAST = 1\n");
  const Result<Implementation> made = read();
  ASSERT_TRUE(made) << made.error().what;
  EXPECT_THAT(made->job.flags, ElementsAre("-std=c++20", "-O2", "-DUNROLL=1", "-ffast-math"));
  EXPECT_THAT(made->notes, IsEmpty());
  EXPECT_EQ(made->job.files.size(), 2u);  // solution.cc and scale.h; never params.toml
}

TEST_F(Candidate, ParametersAreStrict) {
  put(own() / "params.toml", "UNROLL = 3\nFAST = 0\n");
  EXPECT_THAT(refusal(), HasSubstr("UNROLL"));
  put(own() / "params.toml", "UNROLL = 4\nFAST = 1\n");
  EXPECT_THAT(refusal(), HasSubstr("break a constraint"));
  put(own() / "params.toml", "UNROLL = 1\n");
  EXPECT_THAT(refusal(), HasSubstr("FAST"));
  fs::remove(own() / "params.toml");
  EXPECT_THAT(refusal(), HasSubstr("params.toml is missing"));
}

TEST_F(Candidate, UnusedFilesAreToldAndNotUsed) {
  put(own() / "notes.md", "text");
  put(own() / "solution.h", "text");
  put(own() / "scale.h", "#define SCALE 3\n");
  put(own() / ".git/config", "text");
  put(own() / "extra/own.h", "int mine;\n");
  const Result<Implementation> made = read();
  ASSERT_TRUE(made) << made.error().what;
  EXPECT_THAT(made->notes, ElementsAre("not editable, so not used: notes.md, solution.h",
                                       "not editable, so the task's own was used: scale.h"));
  for (const SourceFile& file : made->job.files) {
    EXPECT_NE(file.path, "notes.md");
    if (file.path == "scale.h") {
      EXPECT_THAT(file.content, HasSubstr("SCALE 2"));
    }
  }
}

TEST_F(Candidate, LinksAreRefused) {
  fs::remove(own() / "solution.cc");
  fs::create_symlink("/etc/passwd", own() / "solution.cc");
  EXPECT_THAT(refusal(), HasSubstr("'solution.cc' is a symbolic link"));
}

TEST_F(Candidate, ALinkedFolderIsRefusedWhereItsFilesWouldCount) {
  fs::create_directory_symlink("/etc", own() / "extra");
  EXPECT_THAT(refusal(), HasSubstr("'extra' is a symbolic link"));
  fs::remove(own() / "extra");
  fs::create_directory_symlink("/etc", own() / "elsewhere");  // nobody looks into it
  EXPECT_EQ(refusal(), "");
}

TEST_F(Candidate, AMissingSource) {
  fs::remove(own() / "solution.cc");
  EXPECT_THAT(refusal(), HasSubstr("'solution.cc' is missing"));
}

TEST_F(Candidate, ItsHashIsThatOfItsEditableFiles) {
  const std::string hash = *candidate_hash(task_.task, own());
  put(own() / "notes.md", "text");
  EXPECT_EQ(*candidate_hash(task_.task, own()), hash);
  put(own() / "params.toml", "UNROLL = 1\nFAST = 0\n");
  EXPECT_NE(*candidate_hash(task_.task, own()), hash);
}

TEST_F(Candidate, ABaselineNeedsNoParameters) {
  const Result<Implementation> made =
      read_implementation(task_, task_.folder / "baseline", Origin::baseline, {});
  ASSERT_TRUE(made) << made.error().what;
  EXPECT_THAT(made->job.flags, ElementsAre("-std=c++20", "-O2"));
}

TEST_F(Candidate, ATaskWhoseOracleDoesNotBuildIsAnError) {
  put(task_.folder / "oracle.cc", "this is no C++\n");
  EvaluationRequest request;
  request.cache_folder = shared_cache();
  Libraries libraries;
  const Status built = build_trusted(task_, request, libraries, {});
  ASSERT_FALSE(built);
  EXPECT_EQ(built.error().fault, Fault::invalid);
  EXPECT_THAT(built.error().what, HasSubstr("the task's oracle does not build: oracle.cc:1"));
}

// ---- requests as files

TEST(Request, RoundTrip) {
  EvaluationRequest request;
  request.task_folder = "/task";
  request.candidate_folder = "/own";
  request.incumbent_folder = "/best";
  request.incumbent_speedup = 1.25;
  request.effort = Effort::quick;
  request.race = false;
  request.profile_new_best = false;
  request.profile = true;
  request.seed = 0xfedcba9876543210ULL;
  request.noise = 0.004;
  request.core = 3;
  request.unsafe_no_sandbox = true;
  request.cache_folder = "/cache";
  request.result_folder = "/result";
  const Json json = to_json(request);
  const Result<EvaluationRequest> read = request_from_json(*parse_json(dump_json(json)));
  ASSERT_TRUE(read) << read.error().what;
  EXPECT_EQ(to_json(*read), json);
  EXPECT_EQ(read->seed, request.seed);
}

TEST(Request, WhatIsMissingIsSaid) {
  for (const auto& [text, want] :
       {std::pair<const char*, const char*>{"[]", "schema"},
        {R"({"schema": 2})", "schema"},
        {R"({"schema": 1})", "task_folder"},
        {R"({"schema": 1, "task_folder": "a", "candidate_folder": "b"})", "cache_folder"},
        {R"({"schema": 1, "effort": "some"})", "quick or full"}}) {
    const Result<EvaluationRequest> read = request_from_json(*parse_json(text));
    ASSERT_FALSE(read) << text;
    EXPECT_EQ(read.error().fault, Fault::invalid);
    EXPECT_THAT(read.error().what, HasSubstr(want));
  }
}

}  // namespace
}  // namespace marathon
