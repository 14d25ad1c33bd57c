// Measures every configuration of a task's space (or of a part of it) with the judge and writes one
// JSON: the ground on which bench/search_bench compares the search with random search.
//   marathon-space TASK OUT.json [NAME=value,value …]
// Goes on where an earlier call stopped: points that OUT.json holds are not measured again.
#include <fmt/format.h>

#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/json.h"
#include "base/process.h"
#include "judge/judge.h"
#include "space_file.h"

namespace marathon {
namespace {

namespace fs = std::filesystem;

Result<Verdict> judge_point(const LoadedTask& task, const Configuration& configuration,
                            const fs::path& cache, const fs::path& scratch) {
  const fs::path folder = scratch / "candidate";
  TRY(remove_tree(folder));
  TRY(copy_tree(task.folder / task.task.files.start, folder));
  TRY(write_file(folder / params_file, to_params_toml(task.task, configuration)));
  EvaluationRequest request;
  request.task_folder = task.folder;
  request.candidate_folder = folder;
  request.cache_folder = cache;
  request.result_folder = scratch / "result";
  request.race = false;
  request.profile_new_best = false;
  request.effort = Effort::quick;
  TRY(make_folders(request.result_folder));
  return make_local_executor()->evaluate(
      request, [](const auto&, const auto&, double) { return Status(); }, {});
}

Status measure_space(const fs::path& folder, const fs::path& out,
                     const std::vector<std::string>& parts) {
  const LoadedTask task = TRY(load_task(folder));
  const Task part = TRY(part_of(task.task, parts));
  SpaceFile space = TRY(read_space_file(out, task));
  if (space.task_hash != task.hash)
    return fail(Fault::invalid,
                out.string() + " was measured on another version of the task: remove it");
  space.parts = parts;
  const TempFolder scratch = TRY(TempFolder::make("marathon-space"));
  const std::vector<Configuration> all = all_configurations(part);
  for (size_t i = 0; i < all.size(); ++i) {
    if (space.has(all[i])) continue;
    const Verdict verdict =
        TRY(judge_point(task, all[i], scratch.path() / "cache", scratch.path()));
    space.points.push_back({all[i], is_measured(verdict.kind) ? verdict.speedup.value : 0,
                            !is_measured(verdict.kind)});
    space.cpu = verdict.provenance.cpu;
    fmt::print("{}/{} {} {:.3f}\n", i + 1, all.size(), to_string(verdict.kind),
               verdict.speedup.value);
    std::fflush(stdout);
    if (i % 20 == 0 || i + 1 == all.size()) TRY(write_space_file(out, space));
  }
  return write_space_file(out, space);
}

}  // namespace
}  // namespace marathon

int main(int argc, char** argv) {
  using namespace marathon;
  if (argc < 3) {
    fmt::print(stderr, "usage: marathon-space TASK OUT.json [NAME=value,value …]\n");
    return 2;
  }
  const Status adopted = become_subreaper();
  const Status measured =
      adopted ? measure_space(argv[1], argv[2], {argv + 3, argv + argc}) : adopted;
  if (measured) return 0;
  fmt::print(stderr, "marathon-space: {}\n", measured.error().what);
  return 3;
}
