// Scores the embedded search on measured spaces against calculated random search.
//   marathon-search-bench TASK SPACE.json [seeds]
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "core/statistics.h"
#include "space_file.h"

namespace marathon {
namespace {

Status score(const std::filesystem::path& folder, const std::filesystem::path& file,
             uint64_t seeds) {
  const LoadedTask loaded = TRY(load_task(folder));
  const SpaceFile space = TRY(read_space_file(file, loaded));
  if (space.points.empty()) return fail(Fault::not_found, file.string() + " holds no points");
  // The points stand for themselves: only the parameters must still be the task's.
  if (space.task_hash != loaded.hash)
    fmt::print(stderr, "note: {} was measured on an earlier version of the task\n", file.string());
  const Task task = TRY(part_of(loaded.task, space.parts));
  std::vector<double> values;
  for (const MeasuredPoint& point : space.points)
    values.push_back(point.failed ? 0 : point.speedup);
  const double optimum = *std::max_element(values.begin(), values.end());
  const std::vector<double> random = expected_random_best(values);
  const int64_t cutoff = cutoff_of(values);
  std::vector<double> scores, to_95;
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    const std::vector<double> curve =
        search_curve(task, space.points, seed, static_cast<int64_t>(values.size()));
    scores.push_back(score_of(curve, random, optimum, cutoff));
    size_t n = 0;
    while (n + 1 < curve.size() && curve[n] < 0.95 * optimum) ++n;
    to_95.push_back(static_cast<double>(n + 1));
  }
  size_t random_95 = 0;
  while (random_95 + 1 < random.size() && random[random_95] < 0.95 * optimum) ++random_95;
  fmt::print("| {} | {} | {:.2f}× | {} | {:.2f} ± {:.2f} | {:.0f} | {} |\n", space.task,
             values.size(), optimum, cutoff, median(scores), median_absolute_deviation(scores),
             median(to_95), random_95 + 1);
  return {};
}

}  // namespace
}  // namespace marathon

int main(int argc, char** argv) {
  using namespace marathon;
  if (argc < 3 || argc > 4) {
    fmt::print(stderr, "usage: marathon-search-bench TASK SPACE.json [seeds]\n");
    return 2;
  }
  const uint64_t seeds = argc == 4 ? std::strtoull(argv[3], nullptr, 10) : 30;
  const Status scored = score(argv[1], argv[2], seeds == 0 ? 30 : seeds);
  if (scored) return 0;
  fmt::print(stderr, "marathon-search-bench: {}\n", scored.error().what);
  return 3;
}
