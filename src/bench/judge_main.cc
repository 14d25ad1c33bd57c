// marathon-judge: the trusted half. Owns inputs, outputs, oracle and clock; reads one request file
// and writes one result file. Standard output carries progress lines and nothing else.
#include <fmt/format.h>
#include <malloc.h>
#include <sys/resource.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/file.h"
#include "base/process.h"
#include "bench/cuda/gpu_once.h"
#include "bench/cuda/gpu_oracles.h"
#include "bench/cuda/gpu_peaks.h"
#include "bench/cuda/memory.h"
#include "bench/evaluate.h"
#include "bench/mutants.h"
#include "bench/pairs.h"
#include "bench/parallel.h"
#include "bench/peaks.h"
#include "bench/request.h"

namespace marathon {
namespace {

constexpr int measuring_nice = -15;

Result<Task> read_task(const std::filesystem::path& folder) {
  const std::string file = (folder / "task.toml").string();
  ParsedTask parsed = parse_task(TRY(read_file(file)), file);
  if (parsed.ok()) return std::move(parsed.task);
  return fail(Fault::invalid, parsed.diagnostics.empty() ? file + " is not valid"
                                                         : to_string(parsed.diagnostics.front()));
}

Json to_json(const std::vector<MutantOutcome>& outcomes) {
  Json list = Json::array();
  for (const MutantOutcome& outcome : outcomes) {
    list.push_back({{"mutant", outcome.mutant},
                    {"shape", outcome.shape},
                    {"reason", outcome.reason},
                    {"refused", outcome.refused},
                    {"applicable", outcome.applicable}});
  }
  return {{"mutants", list}};
}

Json to_json(const std::vector<OracleOutcome>& outcomes) {
  Json list = Json::array();
  for (const OracleOutcome& outcome : outcomes) {
    list.push_back({{"shape", outcome.shape},
                    {"reason", outcome.reason},
                    {"error", outcome.error},
                    {"agrees", outcome.agrees}});
  }
  return {{"oracles", list}};
}

Json device_json(const Gpu& gpu) {
  return {{"name", gpu.name},
          {"uuid", gpu.uuid},
          {"compute_capability", gpu.compute_capability},
          {"multiprocessors", gpu.multiprocessors},
          {"memory_bytes", gpu.memory_bytes},
          {"l2_bytes", gpu.l2_bytes},
          {"driver_version", gpu.driver_version}};
}

Result<Json> answer(const BenchRequest& request) {
  switch (request.mode) {
    case BenchMode::peaks: {
      if (request.on_gpu()) return marathon::to_json(TRY(measure_gpu_peaks(request)));
      stand_on(request.core >= 0 ? static_cast<int>(request.core) : last_allowed_core());
      return marathon::to_json(TRY(measure_peaks()));
    }
    case BenchMode::device:
      return device_json(TRY(open_judging_gpu(static_cast<int>(request.gpu))));
    case BenchMode::evaluate:
      return to_json(TRY(evaluate_candidate(request, TRY(read_task(request.task_folder)))));
    case BenchMode::noise: {
      const NoiseFigures figures =
          TRY(measure_noise_figures(request, TRY(read_task(request.task_folder))));
      return Json{{"value", figures.ratio.value},
                  {"low", figures.ratio.low},
                  {"high", figures.ratio.high},
                  {"noise", figures.noise},
                  {"windows", figures.windows}};
    }
    case BenchMode::pairs:
      return to_json(TRY(measure_pairs(request, TRY(read_task(request.task_folder)))));
    case BenchMode::mutants:
      return to_json(TRY(run_mutants(request, TRY(read_task(request.task_folder)))));
    case BenchMode::oracles:
      return to_json(TRY(compare_gpu_oracles(request, TRY(read_task(request.task_folder)))));
    case BenchMode::run_once:
      if (request.on_gpu())
        return run_gpu_once(request, TRY(read_task(request.task_folder)));
      TRY(run_once(request, TRY(read_task(request.task_folder))));
      return Json{{"calls", request.calls}};
  }
  return fail(Fault::invalid, "no such mode");
}

Status judge(const char* request_file, const char* result_file) {
  const BenchRequest request =
      TRY(bench_request_from(TRY(parse_json(TRY(read_file(request_file))))));
  return write_file_durable(result_file, dump_json(TRY(answer(request))) + "\n");
}

}  // namespace
}  // namespace marathon

int main(int argc, char** argv) {
  using namespace marathon;
  if (argc != 5 || std::string_view(argv[1]) != "--request" ||
      std::string_view(argv[3]) != "--result") {
    std::fputs(
        "usage: marathon-judge --request FILE --result FILE\nmarathon "
        "starts it; see "
        "docs/measurement.md\n",
        stderr);
    return 2;
  }
  // Buffers of megabytes come and go with every window: keep their pages.
  ::mallopt(M_MMAP_THRESHOLD, 1 << 30);
  ::mallopt(M_TRIM_THRESHOLD, 1 << 30);
  // Workers inherit it. Where that is not allowed, more windows are disturbed and thrown away.
  (void)::setpriority(PRIO_PROCESS, 0, measuring_nice);
  const Status adopted = become_subreaper();
  const Status judged = adopted ? judge(argv[2], argv[4]) : adopted;
  if (judged) return 0;
  fmt::print(stderr, "{}: {}\n", to_string(judged.error().fault), judged.error().what);
  return judged.error().fault == Fault::invalid || judged.error().fault == Fault::not_found ? 2 : 3;
}
