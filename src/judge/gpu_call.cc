// What the judge must know of the GPU before it builds, and the judge's own kernels.
#include <cstdlib>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "judge/bench_call.h"

namespace marathon {

namespace fs = std::filesystem;

extern const std::string_view judge_kernels;  // text of bench/cuda/judge_kernels.cu

namespace {

constexpr double device_limit_s = 60;
constexpr const char* without_a_gpu = "90a";

// Hopper's own instructions (wgmma, setmaxnreg) need the "a"; so do those of what came after it.
std::string architecture_of(int64_t capability) {
  return std::to_string(capability) + (capability >= 90 ? "a" : "");
}

// Of the GPU here. The controller never loads a driver itself.
Result<std::string> ask_architecture(std::stop_token stop) {
  static std::mutex mutex;
  static std::map<fs::path, std::string> known;  // the GPU does not change while we run
  const std::scoped_lock lock(mutex);
  const fs::path judge = TRY(helper_program("marathon-judge"));
  if (const auto place = known.find(judge); place != known.end()) return place->second;
  const Json device =
      TRY(ask_bench({{"mode", "device"}, {"gpu", 0}}, device_limit_s, std::move(stop)));
  return known[judge] = architecture_of(json_int(device, "compute_capability", 90));
}

}  // namespace

Status require_gpu(std::stop_token stop) {
  TRY(ask_architecture(std::move(stop)));
  return {};
}

Result<std::string> gpu_architecture(const EvaluationRequest&) {
  Result<std::string> architecture = ask_architecture({});
  if (architecture) return architecture;
  const Fault fault = architecture.error().fault;
  if (fault != Fault::not_found && fault != Fault::invalid) return architecture;
  return std::string(without_a_gpu);
}

Result<fs::path> judge_cubin(const EvaluationRequest& request, std::stop_token stop) {
  BuildJob job;
  job.language = Language::cuda;
  job.architecture = TRY(gpu_architecture(request));
  job.files = {{"judge_kernels.cu", std::string(judge_kernels)}};
  job.sources = {"judge_kernels.cu"};
  job.flags = {"-std=c++20", "-O3"};
  job.timeout_s = 300;
  job.unsafe_no_sandbox = request.unsafe_no_sandbox;
  const BuildOutcome built = TRY(build(job, request.cache_folder, {}, std::move(stop)));
  if (built.ok && !built.cubins.empty()) return built.cubins.front();
  return fail(Fault::system, "nvcc does not compile the judge's own kernels: " + built.reason);
}

}  // namespace marathon
