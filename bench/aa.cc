// A/A: the starting solution judged against itself, in full, again and again. Whoever calls
// identical kernels different cannot be believed when it calls different ones different.
//   marathon-aa TASK PAIRS OUT.json
// Writes after every pair and goes on where an earlier call stopped.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/json.h"
#include "base/process.h"
#include "judge/judge.h"

namespace marathon {
namespace {

namespace fs = std::filesystem;

Result<Json> known_pairs(const fs::path& out, const LoadedTask& task) {
  if (!fs::exists(out)) return Json{{"task", task.task.name}, {"pairs", Json::array()}};
  Json known = TRY(parse_json(TRY(read_file(out))));
  if (!known.is_object() || json_string(known, "task") != task.task.name ||
      !known.contains("pairs"))
    return fail(Fault::invalid, out.string() + " holds something else: give another file");
  return known;
}

Status measure_pairs(const fs::path& folder, int64_t pairs, const fs::path& out) {
  const LoadedTask task = TRY(load_task(folder));
  const TempFolder scratch = TRY(TempFolder::make("marathon-aa"));
  EvaluationRequest request;
  request.task_folder = task.folder;
  request.candidate_folder = request.incumbent_folder = task.folder / task.task.files.start;
  request.cache_folder = scratch.path() / "cache";
  request.result_folder = scratch.path() / "result";
  request.profile_new_best = false;
  TRY(make_folders(request.result_folder));
  Json all = TRY(known_pairs(out, task));
  const NoiseReport noise = TRY(measure_noise(request, {}));
  request.noise = noise.noise;
  all["noise"] = noise.noise;
  while (static_cast<int64_t>(all["pairs"].size()) < pairs) {
    const Verdict verdict = TRY(make_local_executor()->evaluate(
        request, [](const auto&, const auto&, double) { return Status(); }, {}));
    all["pairs"].push_back({{"verdict", to_string(verdict.kind)},
                            {"gain", verdict.gain.value},
                            {"low", verdict.gain.low},
                            {"high", verdict.gain.high}});
    all["cpu"] = verdict.provenance.cpu;
    TRY(write_file(out, all.dump(1) + "\n"));
    fmt::print("{}/{} {} {:.4f} ({:.4f}-{:.4f})\n", all["pairs"].size(), pairs,
               to_string(verdict.kind), verdict.gain.value, verdict.gain.low, verdict.gain.high);
    std::fflush(stdout);
  }
  return {};
}

}  // namespace
}  // namespace marathon

int main(int argc, char** argv) {
  using namespace marathon;
  const long pairs = argc == 4 ? std::strtol(argv[2], nullptr, 10) : 0;
  if (pairs < 1) {
    fmt::print(stderr, "usage: marathon-aa TASK PAIRS OUT.json\n");
    return 2;
  }
  const Status adopted = become_subreaper();
  const Status measured = adopted ? measure_pairs(argv[1], pairs, argv[3]) : adopted;
  if (measured) return 0;
  fmt::print(stderr, "marathon-aa: {}\n", measured.error().what);
  return 3;
}
