// Builds of candidates for a GPU. Those that need nvcc skip themselves where there is none.
#include "base/cubin.h"
#include "judge/bench_call.h"
#include "judge/judge_fixture.h"
#include "judge/rules.h"

namespace marathon {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// ---- what ptxas says

constexpr const char* said = R"(ptxas info    : 0 bytes gmem, 24 bytes cmem[4]
ptxas info    : Compiling entry function '_Z5scalePfi' for 'sm_90a'
ptxas info    : Function properties for _Z5scalePfi
    8 bytes stack frame, 16 bytes spill stores, 24 bytes spill loads
ptxas info    : Function properties for _Z6helperf
    99 bytes stack frame, 98 bytes spill stores, 97 bytes spill loads
ptxas info    : Used 40 registers, used 1 barriers, 512 bytes smem, 400 bytes cmem[0]
ptxas info    : Compile time = 2.862 ms
ptxas info    : Compiling entry function 'plain' for 'sm_90a'
ptxas info    : Function properties for plain
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 255 registers, used 0 barriers, 368 bytes cumulative stack size
)";

TEST(Resources, OfEachKernel) {
  const std::vector<KernelResources> kernels = read_resources(said, "a.cu");
  ASSERT_EQ(kernels.size(), 2u);
  EXPECT_EQ(kernels[0], (KernelResources{"_Z5scalePfi", "scale(float*, int)", 40, 16, 24, 8, 512, 1,
                                         0, "a.cu"}));
  EXPECT_EQ(kernels[1], (KernelResources{"plain", "plain", 255, 0, 0, 0, 0, 0, 0, "a.cu"}));
  EXPECT_THAT(read_resources("", "a.cu"), IsEmpty());
  EXPECT_THAT(read_resources("ptxas info : Used 3 registers\nbytes stack frame", "a.cu"),
              IsEmpty());
}

// ---- CUDA C++

constexpr const char* cuda_source = R"(#include "marathon_kernel.h"
#include <cuda_runtime.h>
__global__ void __launch_bounds__(128) scale(const float* x, float* y, int64_t n) {
  __shared__ float held[128];
  held[threadIdx.x] = 2;
  __syncthreads();
  const int64_t i = blockIdx.x * 128ll + threadIdx.x;
  if (i < n) y[i] = held[127 - threadIdx.x] * x[i];
}
extern "C" int marathon_run(const MarathonArgs* args) {
  const int64_t n = args->dims[0];
  scale<<<(n + 127) / 128, 128, 0, static_cast<cudaStream_t>(args->stream)>>>(
      static_cast<const float*>(args->tensors[0]), static_cast<float*>(args->tensors[1]), n);
  return cudaGetLastError() == cudaSuccess ? 0 : 1;
}
)";

constexpr const char* kernel_in = "__global__ void KERNEL(float* x) { x[threadIdx.x] *= 2; }\n";
std::string kernel_named(const std::string& name) {
  std::string text = kernel_in;
  return text.replace(text.find("KERNEL"), 6, name);
}

BuildJob cuda_job(const std::string& source) {
  BuildJob job = job_of("");
  job.language = Language::cuda;
  job.architecture = "90a";
  job.files = {{"solution.cu", source}};
  job.sources = {"solution.cu"};
  job.flags = {"-std=c++20", "-O2"};
  job.timeout_s = 300;
  return job;
}

class CudaBuilds : public testing::Test {
 protected:
  void SetUp() override {
    if (!find_nvcc()) GTEST_SKIP() << "no nvcc here";
  }
  // The reason of what is broken in a candidate of these sources.
  static std::string broken(const BuildJob& job) {
    const BuildOutcome built = must_build(job);
    const Result<std::optional<std::string>> rule = broken_cuda_rule({}, built);
    return rule ? rule->value_or("") : "Error: " + rule.error().what;
  }
};

TEST_F(CudaBuilds, ALibraryItsCubinAndItsResources) {
  const BuildJob job = cuda_job(cuda_source);
  const BuildOutcome built = must_build(job);
  ASSERT_EQ(built.cubins.size(), 1u);
  EXPECT_EQ(built.cubins[0].filename(), "solution.cubin");
  EXPECT_EQ(built.cubins[0].parent_path().parent_path(), built.library.parent_path());
  const Result<CubinFacts> facts = read_cubin(text_of(built.cubins[0]));
  ASSERT_TRUE(facts) << facts.error().what;
  EXPECT_THAT(facts->kernels, ElementsAre("_Z5scalePKfPfl"));
  EXPECT_EQ(facts->max_threads.at("_Z5scalePKfPfl"), 128);
  EXPECT_EQ(broken_cubin_rule(*facts), "");
  // The library holds the very same code.
  EXPECT_NE(text_of(built.library).find(text_of(built.cubins[0])), std::string::npos);
  ASSERT_EQ(built.kernels.size(), 1u);
  EXPECT_EQ(built.kernels[0].kernel, "scale(float const*, float*, long)");
  EXPECT_GT(built.kernels[0].registers, 4);
  EXPECT_EQ(built.kernels[0].static_shared_bytes, 512);
  EXPECT_EQ(built.kernels[0].max_threads, 128);
  EXPECT_EQ(broken(job), "");

  const BuildOutcome again = must_build(job);
  EXPECT_TRUE(again.cached);
  EXPECT_EQ(again.cubins, built.cubins);
  EXPECT_EQ(again.kernels, built.kernels);
  // A damaged cubin is no entry.
  fs::permissions(built.cubins[0], fs::perms::owner_all);
  put(built.cubins[0], "damaged");
  EXPECT_FALSE(must_build(job).cached);
}

TEST_F(CudaBuilds, ACubinForEachSourceThatHasDeviceCode) {
  BuildJob job = cuda_job(cuda_source);
  job.files.push_back({"a/tile.cu", kernel_named("first")});
  job.files.push_back({"b/tile.cu", "namespace {\n" + kernel_named("hidden") + "}\n" +
                                        "void use() { hidden<<<1, 1>>>(nullptr); }\n"});
  job.files.push_back({"host.cc", "int host() { return 1; }\n"});
  job.sources = {"solution.cu", "a/tile.cu", "b/tile.cu", "host.cc"};
  const BuildOutcome built = must_build(job);
  std::vector<std::string> names;
  for (const fs::path& cubin : built.cubins) names.push_back(cubin.filename());
  EXPECT_THAT(names, ElementsAre("a-tile.cubin", "b-tile.cubin", "solution.cubin"));
  EXPECT_EQ(built.kernels.size(), 3u);
  EXPECT_EQ(broken(job), "");
}

TEST_F(CudaBuilds, ErrorsNameFileAndLine) {
  const TempFolder folder = temp_folder();
  const std::pair<const char*, const char*> cases[] = {
      {"__global__ void k(float* x) {\n  x[0] = unknown;\n}\n", "solution.cu(2): error:"},
      {"#include <no_such_header.h>\n", "solution.cu:1:10: fatal error: no_such_header.h"},
      {"extern \"C\" void nowhere(); void f() { nowhere(); }\n", "nowhere"},
      {"__device__ float far(float); __global__ void k(float* x) { x[0] = far(1); }\n", "far"},
      {"__global__ void k(float* x) { __shared__ float s[70000]; s[threadIdx.x] = x[0];\n"
       "  __syncthreads(); x[1] = s[5]; }\n",
       "too much shared data"},
      {"__global__ void a() {} __global__ void b() { a<<<1, 1>>>(); }\n", "solution.cu(1): error:"},
  };
  for (const auto& [source, want] : cases) {
    const Result<BuildOutcome> built =
        build(cuda_job(source), folder.path() / "cache", folder.path() / "build.txt", {});
    ASSERT_TRUE(built) << built.error().what;
    EXPECT_FALSE(built->ok) << source;
    EXPECT_THAT(built->reason, HasSubstr(want)) << built->output;
    EXPECT_THAT(text_of(folder.path() / "build.txt"), HasSubstr(want));
  }
}

TEST_F(CudaBuilds, WhatOutlivesACallIsRefusedByName) {
  const std::string source = cuda_source;
  const auto with = [&](const std::string& more) { return broken(cuda_job(source + more)); };
  EXPECT_THAT(with("__device__ int counter;\n__global__ void k() { ++counter; }\n"),
              AllOf(HasSubstr("solution: "), HasSubstr("'counter'")));
  EXPECT_THAT(with("__global__ void k(int* x) { static int calls; x[0] = ++calls; }\n"),
              HasSubstr("calls"));
  EXPECT_THAT(with("__managed__ int shared_with_host;\n"
                   "__global__ void k() { ++shared_with_host; }\n"),
              HasSubstr("'shared_with_host'"));
  EXPECT_THAT(with("__global__ void k(int** x) { x[0] = static_cast<int*>(malloc(4)); }\n"),
              HasSubstr("calls malloc"));
  EXPECT_EQ(with("__constant__ float table[4] = {1, 2, 3, 4};\n"
                 "__global__ void k(float* x) { x[0] = table[threadIdx.x & 3]; }\n"),
            "");
}

// The tags of its headers lie in global memory.
TEST_F(CudaBuilds, CubMayBeUsed) {
  const BuildJob job = cuda_job(std::string(cuda_source) +
                                "#include <cub/block/block_reduce.cuh>\n"
                                "__global__ void sum(float* x) {\n"
                                "  using Reduce = cub::BlockReduce<float, 128>;\n"
                                "  __shared__ typename Reduce::TempStorage kept;\n"
                                "  const float all = Reduce(kept).Sum(x[threadIdx.x]);\n"
                                "  if (threadIdx.x == 0) x[0] = all;\n}\n");
  const BuildOutcome built = must_build(job);
  EXPECT_EQ(broken(job), "");
  ASSERT_EQ(built.cubins.size(), 1u);
  EXPECT_LT(read_cubin(text_of(built.cubins[0]))->library_object_bytes, 128);
}

TEST_F(CudaBuilds, OneNameForTwoKernelsIsAnError) {
  BuildJob job = cuda_job(cuda_source);
  job.files.push_back(
      {"a.cu", "static " + kernel_named("twin") + "void a() { twin<<<1, 1>>>(nullptr); }\n"});
  job.files.push_back({"b.cu",
                       "template <int n> __global__ void t(float* x) { x[n] = 1; }\n"
                       "void b() { t<1><<<1, 1>>>(nullptr); }\n"});
  job.files.push_back({"c.cu",
                       "template <int n> __global__ void t(float* x) { x[n] = 1; }\n"
                       "void c() { t<1><<<1, 1>>>(nullptr); }\n"});
  job.sources = {"solution.cu", "a.cu", "b.cu", "c.cu"};
  EXPECT_THAT(broken(job), AllOf(HasSubstr("the kernel 'void t<1>(float*)' is in b and in c"),
                                 HasSubstr("anonymous namespace")));
}

TEST_F(CudaBuilds, ALibraryWithoutItsEntryOrWithAForeignLibrary) {
  EXPECT_THAT(broken(cuda_job(kernel_named("k"))), HasSubstr("exports no marathon_run"));
  BuildJob job = cuda_job(cuda_source);
  job.flags.insert(job.flags.end(), {"-Xlinker", "--no-as-needed", "-lcrypto"});
  EXPECT_THAT(broken(job), HasSubstr("it links libcrypto"));
}

TEST_F(CudaBuilds, TheKeyHasArchitectureAndLanguage) {
  const BuildJob job = cuda_job(cuda_source);
  BuildJob older = job, cpp = job;
  older.architecture = "80";
  cpp.language = Language::cpp;
  const Compiler nvcc = *find_nvcc();
  EXPECT_NE(cache_key(job, nvcc), cache_key(older, nvcc));
  EXPECT_NE(cache_key(job, nvcc), cache_key(cpp, nvcc));
  EXPECT_THAT(nvcc.version, HasSubstr("release "));
}

TEST_F(CudaBuilds, NothingButItsOwnFolderAndTheToolkitIsRead) {
  const TempFolder folder = temp_folder();
  put(folder.path() / "oracle.cu", "int answer = 42;\n");
  for (const char* text :
       {"#include \"@\"\n", "asm(\".incbin \\\"@\\\"\");\n", "#include \"/etc/passwd\"\n"}) {
    std::string source = text;
    if (const size_t at = source.find('@'); at != std::string::npos)
      source.replace(at, 1, (folder.path() / "oracle.cu").string());
    const Result<BuildOutcome> built = build(cuda_job(source), folder.path() / "cache", {}, {});
    ASSERT_TRUE(built) << built.error().what;
    EXPECT_FALSE(built->ok) << source;
  }
}

// ---- Triton

BuildJob triton_job(std::vector<SourceFile> files) {
  BuildJob job = job_of("");
  job.language = Language::triton;
  job.files = std::move(files);
  job.sources = {"solution.py"};
  return job;
}

class TritonBuilds : public testing::Test {
 protected:
  void SetUp() override {
    if (!find_python()) GTEST_SKIP() << "no python3 here";
  }
};

TEST_F(TritonBuilds, ModulesAreParsedAndKept) {
  const BuildJob job = triton_job({{"solution.py", "from lib import tile\nimport other\n"},
                                   {"lib/tile.py", "A = 1\n"},
                                   {"other.py", "raise SystemExit('it is never run')\n"}});
  const BuildOutcome built = must_build(job);
  EXPECT_EQ(built.library.filename(), "solution.py");
  EXPECT_EQ(text_of(built.library), job.files[0].content);
  EXPECT_EQ(text_of(built.library.parent_path() / "lib/tile.py"), "A = 1\n");
  EXPECT_THAT(built.cubins, IsEmpty());
  const BuildOutcome again = must_build(job);
  EXPECT_TRUE(again.cached);
  EXPECT_EQ(again.library_hash, built.library_hash);
  // What it imports counts as much as the module itself.
  BuildJob other = job;
  other.files[1].content = "A = 2\n";
  EXPECT_NE(must_build(other).library_hash, built.library_hash);
  fs::permissions(built.library.parent_path() / "lib/tile.py", fs::perms::owner_all);
  put(built.library.parent_path() / "lib/tile.py", "A = 3\n");
  EXPECT_FALSE(must_build(job).cached);
}

TEST_F(TritonBuilds, ErrorsOfSyntaxNameFileAndLine) {
  const TempFolder folder = temp_folder();
  const auto reason = [&](std::vector<SourceFile> files) {
    const Result<BuildOutcome> built = build(triton_job(std::move(files)), folder.path(), {}, {});
    if (!built) return "Error: " + built.error().what;
    EXPECT_FALSE(built->ok);
    return built->reason;
  };
  EXPECT_THAT(reason({{"solution.py", "x = 1\ndef f(:\n"}}), HasSubstr("solution.py:2:7: error: "));
  EXPECT_THAT(reason({{"solution.py", "import a\n"}, {"lib/a.py", "\nif\n"}}),
              HasSubstr("lib/a.py:2:"));
  EXPECT_THAT(reason({{"solution.py", std::string("x = '\0'\n", 8)}}), HasSubstr("solution.py:1:"));
  EXPECT_THAT(reason({{"solution.py", "x = '\xff'\n"}}),
              HasSubstr("solution.py:1:1: error: Unicode"));
}

}  // namespace
}  // namespace marathon
