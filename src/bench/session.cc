#include "bench/session.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>

#include "bench/dtype.h"

namespace marathon {

namespace {

// The judge never holds more than this in one arena; long shapes get fewer sets.
constexpr int64_t max_arena_bytes = 512LL << 20;

int64_t last_axis_of(const Task& task, const Tensor& tensor, const Shape& shape) {
  const Result<std::vector<int64_t>> extents = extents_of(task, tensor, shape);
  return extents && !extents->empty() ? extents->back() : 1;
}

Result<ShapePlan> make_plan(const Task& task, const Shape& shape, Random& random) {
  ShapePlan plan;
  plan.shape = &shape;
  plan.dims = dims_of(task, shape);
  for (const Tensor& tensor : task.tensors) {
    const bool output = tensor.role == Role::output;
    plan.sizes.is_output.push_back(output);
    plan.sizes.tensor_bytes.push_back(TRY(elements_of(task, tensor, shape)) *
                                      bytes_of(tensor.dtype));
    plan.pools.push_back(output ? InputPool() : TRY(InputPool::make(task, tensor, shape, random)));
  }
  return plan;
}

int32_t sets_that_fit(const ShapeSizes& sizes) {
  const int64_t one = std::max(input_arena_bytes(sizes, 1), output_arena_bytes(sizes, 1));
  return static_cast<int32_t>(
      std::clamp<int64_t>(max_arena_bytes / std::max<int64_t>(one, 1), 1, max_sets));
}

}  // namespace

WorkerOptions Session::worker_options(const std::filesystem::path& library) const {
  return {request.worker, library, request.temp_folder, core, request.unsafe_no_sandbox};
}

Result<Worker> Session::start(const std::filesystem::path& library) const {
  return Worker::start(worker_options(library), *inputs, output_bytes);
}

int last_allowed_core() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return -1;
  for (int core = CPU_SETSIZE - 1; core >= 0; --core) {
    if (CPU_ISSET(core, &set)) return core;
  }
  return -1;
}

namespace {
cpu_set_t& all_allowed() {
  static cpu_set_t set = [] {
    cpu_set_t now;
    CPU_ZERO(&now);
    ::sched_getaffinity(0, sizeof now, &now);
    return now;
  }();
  return set;
}
}  // namespace

void stand_aside_of(int core) {
  cpu_set_t set = all_allowed();
  if (core >= 0 && CPU_COUNT(&set) > 1) CPU_CLR(core, &set);
  ::sched_setaffinity(0, sizeof set, &set);
}

void stand_on(int core) {
  all_allowed();
  if (core < 0) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  ::sched_setaffinity(0, sizeof set, &set);
}

namespace {

// Each implementation names its workspace; the largest is given to all, so that addresses tell
// nothing.
std::optional<WorkerFailure> ask_workspaces(Session& session,
                                            const std::filesystem::path& library) {
  Result<Worker> worker = session.start(library);
  if (!worker) return WorkerFailure{VerdictKind::ambiguous, worker.error().what};
  for (ShapePlan& plan : session.plans) {
    int64_t bytes = 0;
    if (std::optional<WorkerFailure> failure = worker->ask_workspace(plan.dims, bytes))
      return failure;
    plan.sizes.workspace_bytes = std::max(plan.sizes.workspace_bytes, bytes);
  }
  return std::nullopt;
}

}  // namespace

Result<std::unique_ptr<Session>> make_session(const BenchRequest& request, const Task& task,
                                              uint64_t seed,
                                              const std::vector<std::filesystem::path>& libraries,
                                              std::optional<WorkerFailure>& failure) {
  std::unique_ptr<Session> session(new Session{request,
                                               task,
                                               TRY(Oracle::load(request.oracle, 8)),
                                               TRY(Oracle::load(request.emulation, 4)),
                                               Random(seed),
                                               -1,
                                               {},
                                               nullptr,
                                               0});
  session->core = request.core >= 0 ? static_cast<int>(request.core) : last_allowed_core();
  if (task.tensors.size() > static_cast<size_t>(max_tensors) ||
      task.dims.size() > static_cast<size_t>(max_dims)) {
    return fail(Fault::invalid, fmt::format("a task may have {} tensors and {} dims at most",
                                            max_tensors, max_dims));
  }
  for (const Shape& shape : task.shapes)
    session->plans.push_back(TRY(make_plan(task, shape, session->random)));
  session->inputs = std::make_unique<Arena>(TRY(Arena::make("marathon-inputs", 4096, true)));
  session->output_bytes = 4096;
  for (const std::filesystem::path& library : libraries) {
    failure = ask_workspaces(*session, library);
    if (failure) return session;
  }
  int64_t input_bytes = 0;
  for (ShapePlan& plan : session->plans) {
    const int32_t sets = sets_that_fit(plan.sizes);
    plan.sets = sets;
    input_bytes = std::max(input_bytes, input_arena_bytes(plan.sizes, std::min<int64_t>(sets, 4)));
    session->output_bytes =
        std::max(session->output_bytes, output_arena_bytes(plan.sizes, std::min<int64_t>(sets, 4)));
  }
  // Small shapes may use many sets within what the largest shape needs anyway.
  input_bytes = std::max<int64_t>(input_bytes, 32 << 20);
  session->output_bytes = std::max<int64_t>(session->output_bytes, 16 << 20);
  for (ShapePlan& plan : session->plans) {
    while (plan.sets > 1 && (input_arena_bytes(plan.sizes, plan.sets) > input_bytes ||
                             output_arena_bytes(plan.sizes, plan.sets) > session->output_bytes)) {
      --plan.sets;
    }
  }
  session->inputs = std::make_unique<Arena>(TRY(Arena::make("marathon-inputs", input_bytes, true)));
  return session;
}

namespace {

Problem read_problem(const Session& session, const ShapePlan& plan, const Layout& layout,
                     int32_t set) {
  Problem problem;
  problem.dims = plan.dims;
  for (size_t i = 0; i < session.task.tensors.size(); ++i) {
    const Tensor& tensor = session.task.tensors[i];
    const int64_t count = plan.sizes.tensor_bytes[i] / bytes_of(tensor.dtype);
    if (tensor.role == Role::output) {
      problem.tensors.emplace_back(static_cast<size_t>(count));
    } else {
      const char* bytes = session.inputs->data() + layout.tensors[static_cast<size_t>(set)][i];
      problem.tensors.push_back(to_doubles(tensor.dtype, bytes, count));
    }
  }
  return problem;
}

std::map<size_t, std::vector<double>> take_outputs(const Task& task, Problem&& problem) {
  std::map<size_t, std::vector<double>> outputs;
  for (size_t i = 0; i < task.tensors.size(); ++i) {
    if (task.tensors[i].role == Role::output) outputs[i] = std::move(problem.tensors[i]);
  }
  return outputs;
}

}  // namespace

Result<Window> make_window(Session& session, const ShapePlan& plan, int32_t sets,
                           bool with_emulation) {
  Window window;
  window.layout = draw_layout(plan.sizes, sets, session.random);
  for (int32_t set = 0; set < sets; ++set) {
    for (size_t i = 0; i < session.task.tensors.size(); ++i) {
      if (plan.sizes.is_output[i]) continue;
      plan.pools[i].fill(
          session.inputs->data() + window.layout.tensors[static_cast<size_t>(set)][i],
          session.random);
    }
    Problem problem = read_problem(session, plan, window.layout, set);
    if (with_emulation) {
      Problem emulated = problem;
      TRY(session.emulation.run(session.task, emulated));
      // What the emulation computed is stored in the output's dtype, as a candidate's would be.
      for (size_t i = 0; i < session.task.tensors.size(); ++i) {
        if (!plan.sizes.is_output[i]) continue;
        const DType dtype = session.task.tensors[i].dtype;
        std::vector<char> bytes(static_cast<size_t>(plan.sizes.tensor_bytes[i]));
        for (size_t e = 0; e < emulated.tensors[i].size(); ++e) {
          set_element(dtype, bytes.data(), static_cast<int64_t>(e), emulated.tensors[i][e]);
        }
        emulated.tensors[i] =
            to_doubles(dtype, bytes.data(), static_cast<int64_t>(emulated.tensors[i].size()));
      }
      window.emulated.push_back(take_outputs(session.task, std::move(emulated)));
    }
    TRY(session.reference.run(session.task, problem));
    window.expected.push_back(take_outputs(session.task, std::move(problem)));
  }
  return window;
}

std::optional<ShapeFailure> run_window(Session& session, const ShapePlan& plan,
                                       const Window& window, int32_t run_sets, Worker& worker,
                                       WindowTimes* times) {
  const uint64_t seed = session.random.next();
  poison(worker.outputs(), window.layout.output_end, seed);
  const auto as_shape = [](const WorkerFailure& failure) {
    return ShapeFailure{failure.kind, failure.why};
  };
  if (const std::optional<WorkerFailure> failed =
          worker.prepare(plan.dims, window.layout, plan.sizes))
    return as_shape(*failed);
  WindowTimes unused;
  const double limit_s = session.task.measure.timeout_s;
  if (const std::optional<WorkerFailure> failed =
          worker.go(run_sets, limit_s, times ? *times : unused))
    return as_shape(*failed);
  std::vector<std::string> names;
  for (const Tensor& tensor : session.task.tensors) names.push_back(tensor.name);
  const std::string broken =
      broken_canary(worker.outputs(), window.layout, plan.sizes, seed, names);
  if (!broken.empty()) return ShapeFailure{VerdictKind::wrong, broken};
  return std::nullopt;
}

std::vector<double> output_of(const Session& session, const ShapePlan& plan, const Window& window,
                              int32_t set, size_t tensor, const Worker& worker) {
  const DType dtype = session.task.tensors[tensor].dtype;
  const char* bytes =
      worker.outputs().data() + window.layout.tensors[static_cast<size_t>(set)][tensor];
  return to_doubles(dtype, bytes, plan.sizes.tensor_bytes[tensor] / bytes_of(dtype));
}

std::optional<ShapeFailure> check_window(const Session& session, const ShapePlan& plan,
                                         const Window& window, int32_t run_sets,
                                         const Worker& worker) {
  for (int32_t set = 0; set < run_sets; ++set) {
    for (const auto& [tensor, expected] : window.expected[static_cast<size_t>(set)]) {
      const Tensor& output = session.task.tensors[tensor];
      const std::vector<double> found = output_of(session, plan, window, set, tensor, worker);
      const ErrorFigures figures =
          errors_of(found, expected, last_axis_of(session.task, output, *plan.shape));
      const Result<std::vector<int64_t>> extents = extents_of(session.task, output, *plan.shape);
      const std::string broken = broken_bound(figures, plan.bounds.at(tensor), output.name,
                                              extents ? *extents : std::vector<int64_t>());
      if (!broken.empty()) return ShapeFailure{VerdictKind::wrong, broken};
    }
  }
  return std::nullopt;
}

}  // namespace marathon
