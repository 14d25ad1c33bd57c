// A task for a GPU on a machine that has none: what can be told all the same, and doctor's lines.
#include <nlohmann/json.hpp>

#include "judge/fingerprint.h"
#include "judge/judge_fixture.h"
#include "judge/pipeline.h"

namespace marathon {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr const char* task_text = R"(schema = 1
name = "scale-gpu"
kind = "kernel"
language = ["cuda", "triton"]
[files]
editable = ["solution.cu", "solution.py", "params.toml"]
[build]
sources = ["solution.cu", "solution.py"]
flags = ["-std=c++20"]
timeout_s = 300
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
[[parameter]]
name = "BLOCK"
values = [64, 128]
start = 64
)";

constexpr const char* cuda_text = R"(#include "marathon_kernel.h"
#include <cuda_runtime.h>
__global__ void scale(const float* x, float* y, int64_t n) {
  const int64_t i = blockIdx.x * int64_t{BLOCK} + threadIdx.x;
  if (i < n) y[i] = 2 * x[i];
}
extern "C" int marathon_run(const MarathonArgs* args) {
  const int64_t n = args->dims[0];
  scale<<<(n + BLOCK - 1) / BLOCK, BLOCK, 0, static_cast<cudaStream_t>(args->stream)>>>(
      static_cast<const float*>(args->tensors[0]), static_cast<float*>(args->tensors[1]), n);
  return 0;
}
)";

constexpr const char* triton_text = R"(import triton
import triton.language as tl
from marathon_params import BLOCK

@triton.jit
def scale(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + i, 2 * tl.load(x + i, mask=i < n, other=0.0), mask=i < n)

def marathon_run(tensors, dims, host, workspace):
    n = dims["N"]
    scale[(triton.cdiv(n, BLOCK),)](tensors["x"], tensors["y"], n, BLOCK)
)";

// A marathon-judge that finds no GPU and notes what it was asked.
class GpuPipeline : public testing::Test {
 protected:
  void SetUp() override {
    put(root() / "task/task.toml", task_text);
    put(root() / "task/oracle.cu", "");
    for (const char* folder : {"task/start", "task/baseline", "own"}) {
      put(root() / folder / "solution.cu", cuda_text);
      put(root() / folder / "params.toml", "BLOCK = 64\n");
    }
    put_program(programs_.path() / "marathon-judge",
                fmt::format("cat $2 >> {}/asked\n"
                            "echo 'not_found: no NVIDIA driver here' >&2; exit 2\n",
                            root().string()));
    request_.task_folder = root() / "task";
    request_.candidate_folder = root() / "own";
    request_.cache_folder = root() / "cache";
  }
  const fs::path& root() const { return folder_.path(); }
  std::string own(const char* file) const { return text_of(root() / "own" / file); }
  Result<Verdict> evaluate() { return make_local_executor()->evaluate(request_, no_stage, {}); }
  Verdict judge() {
    const Result<Verdict> verdict = evaluate();
    EXPECT_TRUE(verdict) << (verdict ? "" : verdict.error().what);
    return verdict ? *verdict : Verdict();
  }
  void write_in_triton(const std::string& text) {
    fs::remove(root() / "own/solution.cu");
    put(root() / "own/solution.py", text);
  }

  TempFolder folder_ = temp_folder();
  ProgramFolder programs_;
  EvaluationRequest request_;
};

TEST_F(GpuPipeline, AForeignIncludeIsToldFirst) {
  put(root() / "own/solution.cu", "#include <cublas_v2.h>\n" + std::string(cuda_text));
  const Verdict verdict = judge();
  EXPECT_EQ(verdict.kind, VerdictKind::rule_broken);
  EXPECT_THAT(verdict.reasons.at(0), HasSubstr("solution.cu:1: #include <cublas_v2.h>"));
}

TEST_F(GpuPipeline, AForeignImportIsToldFirst) {
  write_in_triton("import fla\n" + std::string(triton_text));
  const Verdict verdict = judge();
  EXPECT_EQ(verdict.kind, VerdictKind::rule_broken);
  EXPECT_THAT(verdict.reasons.at(0), HasSubstr("solution.py:1: import fla"));
}

TEST_F(GpuPipeline, TwoLanguagesAtOnceAreNone) {
  put(root() / "own/solution.py", triton_text);
  EXPECT_THAT(judge().reasons.at(0), HasSubstr("leave those of one language"));
}

TEST_F(GpuPipeline, AnErrorOfSyntaxInPython) {
  if (!find_python()) GTEST_SKIP() << "no python3 here";
  write_in_triton(std::string(triton_text) + "def broken(:\n");
  const Verdict verdict = judge();
  EXPECT_EQ(verdict.kind, VerdictKind::build_failed);
  EXPECT_THAT(verdict.reasons.at(0), HasSubstr("solution.py:13:"));
  EXPECT_THAT(verdict.provenance.compiler, StartsWith("Python 3"));
}

// Then nothing is compiled in vain: no oracle, no kernels of the judge.
TEST_F(GpuPipeline, WithoutAGpuTheSentenceOfTheJudge) {
  if (!find_python()) GTEST_SKIP() << "no python3 here";
  write_in_triton(triton_text);
  const Result<Verdict> verdict = evaluate();
  ASSERT_FALSE(verdict);
  EXPECT_THAT(verdict.error().what, HasSubstr("no NVIDIA driver here"));
  EXPECT_THAT(text_of(root() / "asked"),
              AllOf(HasSubstr("\"device\""), Not(HasSubstr("\"peaks\""))));
}

TEST_F(GpuPipeline, CudaIsBuiltAndJudgedByItsCubins) {
  if (!find_nvcc()) GTEST_SKIP() << "no nvcc here";
  put(root() / "own/solution.cu", std::string(cuda_text) + "int missing = unknown;\n");
  Verdict verdict = judge();
  EXPECT_EQ(verdict.kind, VerdictKind::build_failed);
  EXPECT_THAT(verdict.reasons.at(0), HasSubstr("solution.cu(13): error:"));
  EXPECT_THAT(verdict.provenance.compiler, HasSubstr("release"));
  EXPECT_THAT(verdict.provenance.flags, HasSubstr("-DBLOCK=64"));
  put(root() / "own/solution.cu",
      std::string(cuda_text) + "__device__ int count; __global__ void k() { ++count; }\n");
  verdict = judge();
  EXPECT_EQ(verdict.kind, VerdictKind::rule_broken);
  EXPECT_THAT(verdict.reasons.at(0), HasSubstr("'count'"));
  EXPECT_THAT(verdict.reasons.back(), HasSubstr("fingerprint"));
  put(root() / "own/solution.cu", cuda_text);
  const Result<Verdict> honest = evaluate();
  ASSERT_FALSE(honest);
  EXPECT_THAT(honest.error().what, HasSubstr("no NVIDIA driver here"));
}

// ---- task check: what is asked of marathon-judge, and what is made of its answers

class GpuTaskCheck : public GpuPipeline {
 protected:
  void SetUp() override {
    GpuPipeline::SetUp();
    put(root() / "task/oracle.cu", "int answer;\n");
    put(root() / "task/oracle.cc", "int answer;\n");
    put(root() / "task/task.toml",
        std::string(task_text).replace(std::string(task_text).find("[files]\n"), 8,
                                       "[files]\ncpu_oracle = \"oracle.cc\"\n"));
  }
  // A marathon-judge that has a GPU.
  void answer(const std::string& oracles, const std::string& mutants) const {
    const std::string verdict = dump_json(to_json(failed_verdict(VerdictKind::same, "as fast")));
    put(root() / "oracles", oracles);
    put(root() / "mutants", mutants);
    put(root() / "evaluate", verdict);
    put(root() / "device", R"({"compute_capability": 90})");
    put(root() / "peaks", R"({"gflops": 1, "memory_gbytes_s": 1})");
    put_program(
        programs_.path() / "marathon-judge",
        fmt::format("for mode in oracles mutants evaluate device peaks; do\n"
                    "  if grep -q '\"mode\": *\"'$mode'\"' $2; then\n"
                    "    echo $mode >> {0}/asked; cat $2 >> {0}/requests; cp {0}/$mode $4; exit 0\n"
                    "  fi\ndone\nexit 3\n",
                    root().string()));
  }
  TaskCheck check() {
    const Result<TaskCheck> check = check_task(request_, {});
    EXPECT_TRUE(check) << (check ? "" : check.error().what);
    return check ? *check : TaskCheck();
  }
};

constexpr const char* agree = R"({"oracles": [{"shape": "N1000", "agrees": true, "reason": ""}]})";
constexpr const char* refused =
    R"({"mutants": [{"mutant": "zeros", "shape": "N1000", "refused": true, "reason": "far off"}]})";

TEST_F(GpuTaskCheck, WithoutAGpuOnlyTheText) {
  const TaskCheck found = check();
  EXPECT_TRUE(found.ok);
  ASSERT_EQ(found.diagnostics.size(), 1u);
  EXPECT_THAT(found.diagnostics[0].message, HasSubstr("tested on a GPU (no NVIDIA driver here)"));
}

TEST_F(GpuTaskCheck, OraclesAndMutantsAreAsked) {
  if (!find_nvcc()) GTEST_SKIP() << "no nvcc here";
  answer(agree, refused);
  const TaskCheck found = check();
  EXPECT_TRUE(found.ok);
  ASSERT_EQ(found.mutants.size(), 3u);
  EXPECT_EQ(found.mutants[0].mutant, "none: the oracle in C++");
  EXPECT_EQ(found.mutants[1].mutant, "zeros");
  EXPECT_EQ(found.mutants[2].mutant, "none: the baseline itself");
  EXPECT_THAT(text_of(root() / "requests"), HasSubstr("\"cpu_oracle\""));
}

TEST_F(GpuTaskCheck, OraclesThatDifferAndMutantsThatPassAreNotSound) {
  if (!find_nvcc()) GTEST_SKIP() << "no nvcc here";
  answer(R"({"oracles": [{"shape": "N1000", "agrees": false, "reason": "output y: off"}]})",
         refused);
  TaskCheck found = check();
  EXPECT_FALSE(found.ok);
  EXPECT_FALSE(found.mutants.at(0).as_expected);
  EXPECT_EQ(found.mutants.at(0).reason, "output y: off");
  answer(agree, R"({"mutants": [{"mutant": "zeros", "shape": "N1000", "refused": false}]})");
  found = check();
  EXPECT_FALSE(found.ok);
  EXPECT_FALSE(found.mutants.at(1).as_expected);
}

TEST_F(GpuTaskCheck, AnOracleThatNothingIsComparedWithIsSaid) {
  if (!find_nvcc()) GTEST_SKIP() << "no nvcc here";
  answer(R"({"oracles": []})", refused);
  EXPECT_THAT(check().diagnostics.at(0).message, HasSubstr("no shape is small enough"));
  put(root() / "task/task.toml", task_text);
  fs::remove(root() / "asked");
  EXPECT_THAT(check().diagnostics.at(0).message, HasSubstr("name it under [files] cpu_oracle"));
  EXPECT_THAT(text_of(root() / "asked"), Not(HasSubstr("oracles")));
}

// ---- doctor

std::string line_of(const char* topic) {
  for (const Finding& finding : examine_machine("/tmp")) {
    if (finding.topic == topic) return finding.state + " | " + finding.advice;
  }
  return "no line";
}

// Without the tool nothing could become the best: told before a run spends its hours.
TEST_F(GpuPipeline, ADemandedSanitizerThatIsMissingIsToldAtTheStart) {
  put(root() / "task/task.toml", std::string(task_text) + "[judge]\nsanitize = [\"memcheck\"]\n");
  request_.candidate_folder = root() / "task/start";
  const EnvironmentVariable none("COMPUTE_SANITIZER", "no-such-program");
  const Result<NoiseReport> noise = measure_noise(request_, {});
  ASSERT_FALSE(noise);
  EXPECT_EQ(noise.error().fault, Fault::not_found);
  EXPECT_THAT(noise.error().what, AllOf(HasSubstr("[judge] sanitize"), HasSubstr("CUDA toolkit"),
                                        HasSubstr("COMPUTE_SANITIZER")));
}

TEST(DoctorOfGpus, Nvcc) {
  const EnvironmentVariable nvcc("NVCC", "no-such-nvcc");
  EXPECT_THAT(line_of("nvcc"), HasSubstr("not installed | install the CUDA toolkit"));
}

TEST(DoctorOfGpus, ComputeSanitizer) {
  const TempFolder folder = temp_folder();
  put_program(folder.path() / "sanitizer", "");
  const std::string there = (folder.path() / "sanitizer").string();
  const EnvironmentVariable own("COMPUTE_SANITIZER", there);
  EXPECT_EQ(line_of("compute-sanitizer"), there + " | ");
  const EnvironmentVariable none("COMPUTE_SANITIZER", "no-such-program");
  EXPECT_THAT(line_of("compute-sanitizer"),
              AllOf(HasSubstr("not installed | it is part of the CUDA toolkit"),
                    HasSubstr("only for GPU tasks with [judge] sanitize")));
}

TEST(DoctorOfGpus, PythonWithItsPackages) {
  const TempFolder folder = temp_folder();
  put_program(folder.path() / "python", "echo 3.12.1; echo torch 2.11.0; echo triton 3.6.0\n");
  const EnvironmentVariable python("PYTHON", (folder.path() / "python").string());
  EXPECT_EQ(line_of("python3"), "3.12.1, torch 2.11.0, triton 3.6.0 | ");
  put_program(folder.path() / "python", "echo 3.12.1; echo torch 2.11.0; echo no triton\n");
  EXPECT_EQ(
      line_of("python3"),
      "3.12.1, torch 2.11.0, no triton | pip install torch triton (only for tasks in Triton)");
  put_program(folder.path() / "python", "exit 1\n");
  EXPECT_THAT(line_of("python3"), HasSubstr("does not work"));
  // Keys never reach it.
  put_program(folder.path() / "python", "echo 3.12.1; echo \"no torch ${SOME_KEY:-none}\"\n");
  const EnvironmentVariable key("SOME_KEY", "secret");
  EXPECT_THAT(line_of("python3"), AllOf(HasSubstr("no torch none"), Not(HasSubstr("secret"))));
}

TEST(DoctorOfGpus, TheDriver) {
  if (fs::exists("/dev/nvidiactl")) {
    EXPECT_THAT(line_of("NVIDIA driver"), HasSubstr("libcuda.so.1"));
    return;
  }
  const TempFolder folder = temp_folder();
  put(folder.path() / "libcuda.so.1", "");
  const EnvironmentVariable path("LD_LIBRARY_PATH", "/nowhere:" + folder.path().string() + ":");
  EXPECT_THAT(line_of("NVIDIA driver"), HasSubstr("its library, but no /dev/nvidiactl"));
}

}  // namespace
}  // namespace marathon
