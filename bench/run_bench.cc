// What the run itself costs an evaluation: everything but build, check and measurement. That is the
// search's proposal, all events of a turn (each synced), the artifact, the commit and the files for
// the judge. Limit: 20 ms an evaluation (docs/performance.md).
//
//   TMPDIR=/somewhere/on/a/disk run_bench
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "fakes/fake_executor.h"
#include "fakes/tiny_task.h"
#include "run/run.h"

namespace marathon {

namespace {

// A whole run of `evaluations`, from the first event to the last; the time of one evaluation.
void one_evaluation(benchmark::State& state) {
  const Result<TempFolder> temp = TempFolder::make("marathon-run-bench");
  if (!temp) return state.SkipWithError(temp.error().what.c_str());
  write_tiny_task(temp->path() / "task");
  FakeExecutor executor;
  executor.samples = 30;
  RunOptions options;
  options.home = temp->path() / "home";
  options.task_folder = temp->path() / "task";
  options.executor = &executor;
  options.budget.evaluations = state.range(0);
  int64_t evaluations = 0, events = 0;
  for (auto _ : state) {
    const Result<RunOutcome> outcome = start_run(options, {});
    if (!outcome) return state.SkipWithError(outcome.error().what.c_str());
    evaluations += outcome->state.spent.evaluations;
    events += outcome->state.events;
  }
  state.counters["per_evaluation"] = benchmark::Counter(
      static_cast<double>(evaluations), benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
  state.counters["events_per_evaluation"] =
      static_cast<double>(events) / static_cast<double>(evaluations);
}
BENCHMARK(one_evaluation)->Arg(40)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace

}  // namespace marathon

BENCHMARK_MAIN();
