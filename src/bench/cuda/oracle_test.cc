// The oracles of the shipped tasks for a GPU, their kernels run on the host (tests/fakes/simt),
// against those in C++: what `marathon task check` does on a GPU.
#include <gmock/gmock.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <regex>

#include "base/process.h"
#include "bench/cuda/gpu_fixture.h"

namespace marathon {
namespace {

namespace fs = std::filesystem;

const fs::path root = MARATHON_SOURCE_DIR;

// Each wait of a thread is a switch of the stack: shapes that are large stay for a real GPU.
constexpr double most_flops = 1.3e8, most_flops_of_slips = 3e7;

std::string text_of(const fs::path& file) {
  const Result<std::string> text = read_file(file);
  EXPECT_TRUE(text) << file;
  return text.value_or("");
}

// What g++ does not read of CUDA.
std::string for_the_host(const std::string& cuda) {
  const std::regex launch(R"((\w+)<<<([^;]*?)>>>\(([^;]*?)\);)");
  const std::regex shared(R"(extern __shared__ [^;]*?char (\w+)\[\];)");
  return std::regex_replace(
      std::regex_replace(cuda, launch, "simt::launch([=] { $1($3); }, $2);"), shared,
      "char* $1 = simt::dynamic_shared();");
}

class Oracles : public testing::TestWithParam<const char*> {
 protected:
  fs::path task() const { return root / "tasks" / GetParam(); }

  fs::path compile(const std::string& name, const std::string& text,
                   const std::vector<std::string>& flags) const {
    const fs::path source = toy_.folder() / (name + ".cc"), library = toy_.folder() / (name + ".so");
    EXPECT_TRUE(write_file(source, text));
    ProcessSpec spec;
    spec.argv = {"g++", "-std=c++20", "-O2", "-fPIC", "-shared", "-w"};
    spec.argv.insert(spec.argv.end(), flags.begin(), flags.end());
    spec.argv.insert(spec.argv.end(), {"-I" + (root / "include").string(), "-o", library.string(),
                                       source.string()});
    spec.environment = clean_environment(toy_.folder());
    const Result<ProcessResult> result = run_process(spec);
    EXPECT_TRUE(result && result->exit_code == 0) << (result ? result->err : result.error().what);
    return library;
  }
  fs::path cuda_oracle(const std::string& name, const std::string& text,
                       const std::vector<std::string>& flags) const {
    std::vector<std::string> all = {"-D__CUDACC__",
                                    "-I" + (root / "tests/fakes/simt").string()};
    all.insert(all.end(), flags.begin(), flags.end());
    return compile(name, for_the_host(text), all);
  }

  // The answer's list. `cuda`: the text of oracle.cu.
  Json compare(const std::string& cuda, double flops) const {
    const Json answer = toy_.answer(
        {{"mode", "oracles"},
         {"task_folder", task().string()},
         {"oracle", cuda_oracle("oracle", cuda, {"-DMARATHON_REAL=double"}).string()},
         {"emulation", cuda_oracle("emulation", cuda,
                                   {"-DMARATHON_REAL=float", "-DMARATHON_EMULATION=1"})
                           .string()},
         {"cpu_oracle",
          compile("plain", text_of(task() / "oracle.cc"), {"-DMARATHON_REAL=double"}).string()},
         {"judge_cubin", (toy_.folder() / "judge.cubin").string()},
         {"oracle_flops", flops},
         {"seed", 11}});
    return answer.is_object() ? answer.value("oracles", Json::array()) : Json::array();
  }
  std::string oracle() const { return text_of(task() / "oracle.cu"); }

  GpuToy toy_;
};

TEST_P(Oracles, SayTheSame) {
  const Json outcomes = compare(oracle(), most_flops);
  const std::map<std::string, size_t> least = {
      {"kda-forward", 15}, {"mla-decode", 10}, {"mla-prefill", 7}};
  EXPECT_GE(outcomes.size(), least.at(GetParam()));
  for (const Json& outcome : outcomes) {
    EXPECT_TRUE(json_bool(outcome, "agrees"))
        << json_string(outcome, "shape") << ": " << json_string(outcome, "reason");
    EXPECT_LT(json_double(outcome, "error", 1), 1e-7) << json_string(outcome, "shape");
  }
}

// One slip each, and the comparison shows it.
TEST_P(Oracles, ASlipIsSeen) {
  const std::map<std::string, std::vector<std::pair<std::string, std::string>>> slips = {
      {"kda-forward",
       {{"norm_epsilon = 1e-6", "norm_epsilon = 1e-4"},
        {"lowest_gate = -5", "lowest_gate = -4.999"},
        {"read += state[j] * k[j];", "read += state[j] / decay[t][channel] * k[j];"},
        {"if (is_wanted && lane == 0 && columns.out)",
         "if (is_wanted && lane == 0 && columns.out && first + t + 1 < end)"}}},
      {"mla-decode",
       {{"min(static_cast<int64_t>(lengths[b]), keys)", "keys"},
        {"sqrt(static_cast<real>(p.depth))", "sqrt(static_cast<real>(width))"},
        {"top + log(total)", "log(total)"}}},
      {"mla-prefill",
       {{"token(row) + offset + 1", "token(row) + offset"},
        {"places ? places[row % count] : row % count", "row % count"},
        {"top + log(total)", "log(total)"}}},
  };
  for (const auto& [from, to] : slips.at(GetParam())) {
    std::string text = oracle();
    ASSERT_NE(text.find(from), std::string::npos) << from;
    text.replace(text.find(from), from.size(), to);
    const Json outcomes = compare(text, most_flops_of_slips);
    EXPECT_TRUE(std::any_of(outcomes.begin(), outcomes.end(),
                            [](const Json& outcome) { return !json_bool(outcome, "agrees"); }))
        << to;
  }
}

INSTANTIATE_TEST_SUITE_P(Tasks, Oracles,
                         testing::Values("kda-forward", "mla-decode", "mla-prefill"),
                         [](const testing::TestParamInfo<const char*>& task) {
                           std::string name = task.param;
                           name.erase(std::remove(name.begin(), name.end(), '-'), name.end());
                           return name;
                         });

}  // namespace
}  // namespace marathon
