#include "bench/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "bench/dtype.h"
#include "bench/parallel.h"
#include "bench/peaks.h"

namespace marathon {

namespace {

Result<ShapePlan> make_plan(const Task& task, const Shape& shape) {
  ShapePlan plan;
  plan.shape = &shape;
  plan.dims = dims_of(task, shape);
  for (const Tensor& tensor : task.tensors) {
    const bool output = tensor.role == Role::output;
    plan.extents.push_back(TRY(extents_of(task, tensor, shape)));
    plan.sizes.is_output.push_back(output);
    plan.sizes.tensor_bytes.push_back(TRY(elements_of(task, tensor, shape)) *
                                      bytes_of(tensor.dtype));
    plan.samplers.push_back(output ? Sampler() : TRY(Sampler::make(task, tensor, shape)));
  }
  return plan;
}

}  // namespace

int64_t ShapePlan::input_bytes() const {
  int64_t bytes = 0;
  for (size_t i = 0; i < sizes.tensor_bytes.size(); ++i) {
    if (!sizes.is_output[i]) bytes += sizes.tensor_bytes[i];
  }
  return bytes;
}

double ShapePlan::touched_bytes() const {
  double bytes = 0;
  for (const int64_t one : sizes.tensor_bytes) bytes += static_cast<double>(one);
  return bytes;
}

Result<Worker> Session::start(const std::filesystem::path& library, int64_t input_bytes,
                              int64_t output_bytes) {
  const WorkerOptions options{
      request.worker,        library, request.temp_folder, core, apart, request.unsafe_no_sandbox,
      task.measure.timeout_s};
  Worker worker = TRY(Worker::start(options, input_bytes, output_bytes));
  sandbox = to_string(worker.level());
  return worker;
}

Result<std::unique_ptr<Session>> make_session(const BenchRequest& request, const Task& task,
                                              uint64_t seed) {
  if (task.kind != TaskKind::kernel)
    return fail(Fault::invalid, "marathon-judge measures tasks of kind \"kernel\" only");
  if (task.tensors.size() > static_cast<size_t>(max_tensors) ||
      task.dims.size() > static_cast<size_t>(max_dims)) {
    return fail(Fault::invalid, fmt::format("a task may have {} tensors and {} dims at most",
                                            max_tensors, max_dims));
  }
  std::unique_ptr<Session> session(new Session{request,
                                               task,
                                               TRY(Oracle::load(request.oracle, 8)),
                                               TRY(Oracle::load(request.emulation, 4)),
                                               Random(seed),
                                               -1,
                                               false,
                                               {},
                                               {},
                                               {}});
  session->core = request.core >= 0 ? static_cast<int>(request.core) : last_allowed_core();
  session->apart = stand_aside_of(session->core);
  for (const Shape& shape : task.shapes) session->plans.push_back(TRY(make_plan(task, shape)));
  return session;
}

Result<std::optional<WorkerFailure>> ask_workspaces(Session& session,
                                                    const std::filesystem::path& library) {
  Worker worker = TRY(session.start(library, 4096, 4096));
  for (ShapePlan& plan : session.plans) {
    int64_t bytes = 0;
    if (std::optional<WorkerFailure> failure = worker.ask_workspace(plan.dims, bytes))
      return failure;
    plan.sizes.workspace_bytes = std::max(plan.sizes.workspace_bytes, bytes);
  }
  return std::optional<WorkerFailure>();
}

// ---- problems

namespace {

std::vector<char> draw_inputs(const ShapePlan& plan, uint64_t seed) {
  std::vector<char> packed(static_cast<size_t>(plan.input_bytes()));
  int64_t at = 0;
  for (size_t i = 0; i < plan.samplers.size(); ++i) {
    if (plan.sizes.is_output[i]) continue;
    plan.samplers[i].fill(packed.data() + at, Random(seed, std::to_string(i)).next());
    at += plan.sizes.tensor_bytes[i];
  }
  return packed;
}

Problem problem_from(const Task& task, const ShapePlan& plan, const std::vector<char>& packed) {
  Problem problem;
  problem.dims = plan.dims;
  int64_t at = 0;
  for (size_t i = 0; i < task.tensors.size(); ++i) {
    const DType dtype = task.tensors[i].dtype;
    const int64_t count = plan.sizes.tensor_bytes[i] / bytes_of(dtype);
    if (plan.sizes.is_output[i]) {
      problem.tensors.emplace_back(static_cast<size_t>(count));
      continue;
    }
    problem.tensors.push_back(to_doubles(dtype, packed.data() + at, count));
    at += plan.sizes.tensor_bytes[i];
  }
  return problem;
}

std::vector<Values> take_outputs(const ShapePlan& plan, Problem&& problem) {
  std::vector<Values> outputs(problem.tensors.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (plan.sizes.is_output[i]) outputs[i] = std::move(problem.tensors[i]);
  }
  return outputs;
}

// What the emulation computed is stored in the output's dtype, as a candidate's would be.
void round_outputs(const Task& task, std::vector<Values>& outputs) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    const DType dtype = task.tensors[i].dtype;
    std::vector<char> bytes(outputs[i].size() * static_cast<size_t>(bytes_of(dtype)));
    from_doubles(dtype, outputs[i], bytes.data());
    outputs[i] = to_doubles(dtype, bytes.data(), static_cast<int64_t>(outputs[i].size()));
  }
}

}  // namespace

Result<Solved> solve(const Session& session, const ShapePlan& plan, uint64_t seed, Keep keep,
                     bool with_emulation) {
  Solved solved;
  solved.seed = seed;
  solved.inputs = draw_inputs(plan, seed);
  if (with_emulation) {
    Problem problem = problem_from(session.task, plan, solved.inputs);
    TRY(session.emulation.run(session.task, problem));
    solved.emulated = take_outputs(plan, std::move(problem));
    round_outputs(session.task, solved.emulated);
  }
  Problem problem = problem_from(session.task, plan, solved.inputs);
  TRY(session.reference.run(session.task, problem));
  solved.expected = take_outputs(plan, std::move(problem));
  if (keep == Keep::seed) solved.inputs = {};
  return solved;
}

// ---- windows

Result<Window> Window::make(const ShapePlan& plan, std::span<const Solved* const> problems) {
  Window window;
  window.problems_.assign(problems.begin(), problems.end());
  window.drawn_.resize(problems.size());
  if (std::none_of(problems.begin(), problems.end(),
                   [](const Solved* problem) { return problem->inputs.empty(); }))
    return window;
  TRY(in_parallel(window.sets(), [&](int64_t set) -> Status {
    const Solved& problem = window.problem(static_cast<int32_t>(set));
    if (problem.inputs.empty())
      window.drawn_[static_cast<size_t>(set)] = draw_inputs(plan, problem.seed);
    return {};
  }));
  return window;
}

const std::vector<char>& Window::inputs(int32_t set) const {
  const Solved& kept = problem(set);
  return kept.inputs.empty() ? drawn_[static_cast<size_t>(set)] : kept.inputs;
}

namespace {

void copy_inputs(const ShapePlan& plan, const Window& window, const Layout& layout,
                 const Arena& arena) {
  for (int32_t set = 0; set < window.sets(); ++set) {
    const char* from = window.inputs(set).data();
    for (size_t i = 0; i < plan.sizes.is_output.size(); ++i) {
      if (plan.sizes.is_output[i]) continue;
      const size_t bytes = static_cast<size_t>(plan.sizes.tensor_bytes[i]);
      if (bytes == 0) continue;
      std::memcpy(arena.data() + layout.tensors[static_cast<size_t>(set)][i], from, bytes);
      from += bytes;
    }
  }
}

// Reads twice as much as the last level holds. Reading, not writing: lines that have to be written
// back would be so inside of the window.
void sweep_caches(std::vector<char>& sweep) {
  if (sweep.empty()) sweep.resize(static_cast<size_t>(2 * last_level_cache_bytes()), 1);
  int64_t sum = 0;
  for (size_t i = 0; i < sweep.size(); i += 64) sum += sweep[i];
  volatile int64_t sink = sum;
  (void)sink;
}

// A hanging call is found after its own limit, not after the limit times the sets.
double limit_of(const Session& session, const ShapePlan& plan, int32_t sets) {
  const double limit_s = session.task.measure.timeout_s;
  const double expected_s = plan.call_s > 0 ? std::min(20 * plan.call_s, limit_s) : limit_s;
  return limit_s + (std::max(sets, 1) - 1) * expected_s;
}

ShapeFailure as_shape(const WorkerFailure& failure) { return {failure.kind, failure.why}; }

}  // namespace

std::optional<ShapeFailure> run_window(Session& session, const ShapePlan& plan,
                                       const Window& window, Worker& worker, CacheState cache,
                                       Run& run) {
  const int32_t sets = window.sets();
  run.layout = draw_layout(plan.sizes, sets, session.random);
  const uint64_t pattern = session.random.next();
  stand_on(session.core);
  poison(worker.outputs(), run.layout.output_end, pattern);
  copy_inputs(plan, window, run.layout, worker.inputs());
  if (cache == CacheState::cold) sweep_caches(session.sweep);
  stand_aside_of(session.core);
  if (const std::optional<WorkerFailure> failed = worker.run(
          plan.dims, run.layout, plan.sizes, sets, limit_of(session, plan, sets), run.times))
    return as_shape(*failed);
  std::vector<std::string> names;
  for (const Tensor& tensor : session.task.tensors) names.push_back(tensor.name);
  const std::string broken =
      broken_canary(worker.outputs(), run.layout, plan.sizes, pattern, names);
  if (!broken.empty()) return ShapeFailure{VerdictKind::wrong, broken};
  return std::nullopt;
}

std::optional<ShapeFailure> run_empty(Session& session, const ShapePlan& plan, Worker& worker,
                                      WindowTimes& times) {
  const Layout layout = draw_layout(plan.sizes, 1, session.random);
  const double limit_s = session.task.measure.timeout_s;
  if (const std::optional<WorkerFailure> failed =
          worker.run(plan.dims, layout, plan.sizes, 0, limit_s, times))
    return as_shape(*failed);
  return std::nullopt;
}

Values output_of(const Session& session, const ShapePlan& plan, const Run& run, int32_t set,
                 size_t tensor, const Worker& worker) {
  const DType dtype = session.task.tensors[tensor].dtype;
  const char* bytes =
      worker.outputs().data() + run.layout.tensors[static_cast<size_t>(set)][tensor];
  return to_doubles(dtype, bytes, plan.sizes.tensor_bytes[tensor] / bytes_of(dtype));
}

std::optional<ShapeFailure> check_window(const Session& session, const ShapePlan& plan,
                                         const Window& window, const Run& run,
                                         const Worker& worker) {
  for (int32_t set = 0; set < window.sets(); ++set) {
    for (const auto& [tensor, bound] : plan.bounds) {
      const Values found = output_of(session, plan, run, set, tensor, worker);
      const ErrorFigures figures =
          errors_of(found, window.problem(set).expected[tensor], plan.extents[tensor]);
      const Places places = plan.shape->set == ShapeSet::hidden ? Places::untold : Places::told;
      const std::string broken =
          broken_bound(figures, bound, session.task.tensors[tensor], plan.extents[tensor], places);
      if (!broken.empty()) return ShapeFailure{VerdictKind::wrong, broken};
    }
  }
  return std::nullopt;
}

bool is_looked_at(const Session& session, const ShapePlan& plan) {
  if (!session.request.quick || plan.shape->set == ShapeSet::stress) return true;
  for (const ShapePlan& other : session.plans) {
    if (other.shape->set == ShapeSet::listed) return other.shape == plan.shape;
  }
  return false;
}

}  // namespace marathon
