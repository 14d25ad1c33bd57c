#include "bench/mutants.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "bench/check.h"
#include "bench/core_lock.h"
#include "bench/cuda/gpu_mutants.h"
#include "bench/parallel.h"
#include "bench/spoil.h"

namespace marathon {

namespace {

constexpr double core_wait_s = 600;

// The inputs of a set as numbers, changed element by element.
using Change = std::function<double(size_t tensor, int64_t element, double value)>;
Problem changed_problem(const Session& session, const ShapePlan& plan, const Window& window,
                        const Change& change) {
  Problem problem;
  problem.dims = plan.dims;
  const char* from = window.inputs(0).data();
  for (size_t i = 0; i < session.task.tensors.size(); ++i) {
    const Tensor& tensor = session.task.tensors[i];
    const int64_t count = plan.sizes.tensor_bytes[i] / bytes_of(tensor.dtype);
    if (plan.sizes.is_output[i]) {
      problem.tensors.emplace_back(static_cast<size_t>(count));
      continue;
    }
    Values values = to_doubles(tensor.dtype, from, count);
    from += plan.sizes.tensor_bytes[i];
    if (is_floating(tensor.dtype)) {
      for (int64_t e = 0; e < count; ++e)
        values[static_cast<size_t>(e)] = change(i, e, values[static_cast<size_t>(e)]);
    }
    problem.tensors.push_back(std::move(values));
  }
  return problem;
}

double through_bf16(double value) {
  return static_cast<double>(bf16_to_float(float_to_bf16(static_cast<float>(value))));
}

class MutantRun {
 public:
  MutantRun(Session& session, const std::filesystem::path& library)
      : session_(session), library_(library) {}

  Status at_shape(const ShapePlan& plan, std::vector<MutantOutcome>& outcomes) {
    Solved problems[2];
    for (Solved& problem : problems)
      problem = TRY(solve(session_, plan, session_.random.next(), Keep::inputs, false));
    const Solved* both[] = {&problems[0], &problems[1]};
    const Window window = TRY(Window::make(plan, both));
    Worker worker = TRY(session_.start(library_, input_arena_bytes(plan.sizes, 2),
                                       output_arena_bytes(plan.sizes, 2)));
    Run run;
    if (const std::optional<ShapeFailure> failure =
            run_window(session_, plan, window, worker, CacheState::warm, run)) {
      return fail(Fault::invalid,
                  "the starting solution fails at shape " + plan.shape->name + ": " + failure->why);
    }
    const Problem forgetful =
        TRY(without_the_first_half(plan, window, sequence_axis(session_.task, plan.extents)));
    const Problem partial =
        TRY(without_the_first_half(plan, window, summed_axis(session_.task, plan.extents)));
    const Problem coarse = TRY(with_coarse_inputs(plan, window));
    for (const Mutant& mutant : all_mutants()) {
      MutantOutcome outcome{mutant.name, plan.shape->name, "", true, false};
      for (const auto& [tensor, bound] : plan.bounds) {
        const Material material{session_.task.tensors[tensor].dtype,
                                plan.extents[tensor],
                                output_of(session_, plan, run, 0, tensor, worker),
                                window.problem(1).expected[tensor],
                                spliced(plan, tensor, window, forgetful),
                                coarse.tensors[tensor],
                                partial.tensors[tensor],
                                0,
                                session_.random};
        try_mutant(mutant, plan, tensor, window.problem(0).expected[tensor], material, outcome);
        if (!outcome.refused) break;
      }
      if (!outcome.applicable)
        outcome.reason = "not applicable: it is as right as the honest output here";
      outcomes.push_back(std::move(outcome));
    }
    return {};
  }

 private:
  // Of the axis with that name; without a name nothing is changed.
  Result<Problem> without_the_first_half(const ShapePlan& plan, const Window& window,
                                         const std::string& name) {
    std::vector<std::optional<Axis>> axes;
    for (size_t i = 0; i < session_.task.tensors.size(); ++i)
      axes.push_back(axis_named(session_.task.tensors[i], plan.extents[i], name));
    Problem problem =
        changed_problem(session_, plan, window, [&](size_t tensor, int64_t element, double value) {
          const std::optional<Axis>& axis = axes[tensor];
          if (!axis) return value;
          return axis->index(element) < axis->extent / 2 ? 0 : value;
        });
    TRY(session_.emulation.run(session_.task, problem));
    return problem;
  }

  Result<Problem> with_coarse_inputs(const ShapePlan& plan, const Window& window) {
    Problem problem = changed_problem(
        session_, plan, window, [](size_t, int64_t, double value) { return through_bf16(value); });
    TRY(session_.emulation.run(session_.task, problem));
    return problem;
  }

  // The truth in the first half of the sequence, what never saw it in the second. An output without
  // that axis (a last state) is all second half.
  Values spliced(const ShapePlan& plan, size_t tensor, const Window& window,
                 const Problem& forgetful) const {
    const std::optional<Axis> axis = axis_named(session_.task.tensors[tensor], plan.extents[tensor],
                                                sequence_axis(session_.task, plan.extents));
    if (!axis) return forgetful.tensors[tensor];
    Values result = window.problem(0).expected[tensor];
    for (size_t e = 0; e < result.size(); ++e) {
      if (axis->index(static_cast<int64_t>(e)) >= axis->extent / 2)
        result[e] = forgetful.tensors[tensor][e];
    }
    return result;
  }

  // Each output is spoilt alone, and each must be refused: one whose spoiling passes is a blind
  // spot of the checker.
  void try_mutant(const Mutant& mutant, const ShapePlan& plan, size_t tensor,
                  const Values& expected, const Material& material, MutantOutcome& outcome) {
    const Tensor& output = session_.task.tensors[tensor];
    if (expected.empty() || is_harmless(mutant.name, session_.task, output.dtype)) return;
    const Values spoilt = mutant.make(material);
    const ErrorFigures figures = errors_of(spoilt, expected, plan.extents[tensor]);
    const ErrorFigures honest = errors_of(material.honest, expected, plan.extents[tensor]);
    if (std::equal(spoilt.begin(), spoilt.end(), material.honest.begin()) ||
        is_as_right(figures, honest))
      return;
    outcome.applicable = true;
    outcome.reason = broken_bound(figures, plan.bounds.at(tensor), output, plan.extents[tensor]);
    if (!outcome.reason.empty()) return;
    outcome.refused = false;
    outcome.reason =
        fmt::format("output {} passed with an error of {:.2e}", output.name, figures.block);
  }

  // Two rows that are equal in truth may be exchanged; forgetting is right where nothing is
  // carried. Such material is made by the emulation, whose plain sums err more than the honest
  // start.
  static constexpr double as_right = 40;
  static bool is_as_right(const ErrorFigures& mutant, const ErrorFigures& honest) {
    return mutant.not_finite.empty() && mutant.block <= as_right * honest.block &&
           mutant.row <= as_right * honest.row && mutant.element <= as_right * honest.element;
  }

  Session& session_;
  const std::filesystem::path& library_;
};

}  // namespace

Result<std::vector<MutantOutcome>> run_mutants(const BenchRequest& request, const Task& task) {
  if (request.on_gpu()) return run_gpu_mutants(request, task);
  const Fd lock = TRY(lock_core(
      request.core >= 0 ? static_cast<int>(request.core) : last_allowed_core(), core_wait_s));
  const std::unique_ptr<Session> session = TRY(make_session(request, task, request.seed));
  if (const std::optional<WorkerFailure> failure = TRY(ask_workspaces(*session, request.candidate)))
    return fail(Fault::invalid, "the starting solution fails: " + failure->why);
  const CheckResult checked = TRY(check_candidate(*session, request.candidate, {}));
  if (checked.failure) {
    return fail(Fault::invalid, fmt::format("the starting solution is wrong at {}: {}",
                                            checked.failed_shape, checked.failure->why));
  }
  std::vector<MutantOutcome> outcomes;
  MutantRun run(*session, request.candidate);
  for (const ShapePlan& plan : session->plans) {
    if (plan.shape->set == ShapeSet::listed) TRY(run.at_shape(plan, outcomes));
  }
  return outcomes;
}

}  // namespace marathon
