#include "bench/cuda/gpu_oracles.h"

#include <fmt/format.h>

#include <algorithm>

#include "bench/core_lock.h"
#include "bench/cuda/gpu_tensors.h"
#include "bench/oracle.h"

namespace marathon {

namespace {

constexpr double gpu_wait_s = 3600;
constexpr double most_elements = 1 << 25;
// Both compute in double and add in other orders.
constexpr ErrorBound agreement = {1e-7, 1e-6, 1e-5};

double flops_of(const Task& task, const Shape& shape) {
  if (!task.floor.flops) return 0;
  const auto dim = [&](std::string_view name) -> std::optional<int64_t> {
    const auto found = shape.dims.find(std::string(name));
    return found == shape.dims.end() ? std::nullopt : std::optional<int64_t>(found->second);
  };
  const Result<int64_t> flops = task.floor.flops->evaluate(dim);
  return flops ? static_cast<double>(*flops) : most_elements * most_elements;
}

bool is_small(const Task& task, const GpuShape& shape, double most_flops) {
  double elements = 0;
  for (size_t t = 0; t < task.tensors.size(); ++t)
    elements += static_cast<double>(shape.plan.sizes.tensor_bytes[t] /
                                    bytes_of(task.tensors[t].dtype));
  return elements <= most_elements && flops_of(task, *shape.plan.shape) <= most_flops;
}

Result<OracleOutcome> compare_at(GpuSession& session, const GpuShape& shape, const Oracle& plain) {
  const Task& task = session.task();
  const GpuSolved solved = TRY(session.solve(shape, 0, session.random().next(), false));
  Problem problem;
  problem.dims = shape.plan.dims;
  for (size_t t = 0; t < task.tensors.size(); ++t) {
    const DType dtype = task.tensors[t].dtype;
    const int64_t count = shape.plan.sizes.tensor_bytes[t] / bytes_of(dtype);
    if (shape.plan.sizes.is_output[t])
      problem.tensors.emplace_back(static_cast<size_t>(count));
    else
      problem.tensors.push_back(
          to_doubles(dtype, TRY(read_tensor(session, shape, 0, t)).data(), count));
  }
  TRY(plain.run(task, problem));
  OracleOutcome outcome;
  outcome.shape = shape.plan.shape->name;
  for (size_t t = 0; t < task.tensors.size() && outcome.reason.empty(); ++t) {
    if (!shape.plan.sizes.is_output[t]) continue;
    Values expected;
    for (const int64_t place : TRY(looked_at(session, shape, solved, t)))
      expected.push_back(problem.tensors[t][static_cast<size_t>(place)]);
    const Values found = TRY(read_answer(session, shape, solved.expected[t], t));
    const ErrorFigures figures = errors_of(found, expected, shape.compact[t]);
    outcome.error = std::max(outcome.error, figures.block);
    outcome.reason = broken_bound(figures, agreement, task.tensors[t], shape.compact[t]);
  }
  outcome.agrees = outcome.reason.empty();
  session.forget_solved();
  return outcome;
}

}  // namespace

Result<std::vector<OracleOutcome>> compare_gpu_oracles(const BenchRequest& request,
                                                       const Task& task) {
  const std::unique_ptr<GpuSession> session = TRY(GpuSession::make(request, task));
  const Fd lock = TRY(lock_core(gpu_lock_base + static_cast<int>(request.gpu), gpu_wait_s));
  const Oracle plain = TRY(Oracle::load(request.cpu_oracle, 8));
  std::vector<GpuShape>& shapes = session->shapes();
  std::erase_if(shapes, [&](const GpuShape& shape) {
    return !is_small(task, shape, request.oracle_flops);
  });
  std::vector<OracleOutcome> outcomes;
  if (shapes.empty()) return outcomes;
  for (GpuShape& shape : shapes) shape.plan.sets = 1;
  TRY(session->lay_out());
  for (const GpuShape& shape : shapes)
    outcomes.push_back(TRY(compare_at(*session, shape, plain)));
  return outcomes;
}

}  // namespace marathon
