#include "bench/cuda/gpu_mutants.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>

#include "bench/core_lock.h"
#include "bench/cuda/gpu_plan.h"
#include "bench/cuda/gpu_tensors.h"
#include "bench/spoil.h"

namespace marathon {

namespace {

constexpr double gpu_wait_s = 3600;
// A mutant that errs no more than the honest emulation and the start do is as right as they are.
constexpr double as_right = 1.1;
// What rounding to these types errs by at most.
constexpr double bf16_step = 0x1p-9, fp16_step = 0x1p-12;

// One output of the start, and what was made of it on other inputs.
struct Output {
  size_t tensor = 0;
  std::vector<char> bytes;      // as it stands in its buffer
  std::vector<int64_t> places;  // of what is looked at
  Values honest, expected, other, forgetful, coarse, partial;
  ErrorFigures start, emulation;
};

using Change = std::function<void(size_t tensor, std::vector<char>& bytes)>;

class MutantRun {
 public:
  MutantRun(GpuSession& session, const GpuPlans& plans, GpuProcess& replayer)
      : session_(session), task_(session.task()), plans_(plans), replayer_(replayer) {}

  Status at_shape(GpuShape& shape, std::vector<MutantOutcome>& outcomes) {
    std::vector<GpuSolved> problems;
    for (const int64_t set : {0, 1})
      problems.push_back(TRY(session_.solve(shape, set, session_.random().next(), true)));
    TRY(set_bounds(shape, problems));
    TRY(run_start(shape));
    std::vector<Output> outputs = TRY(outputs_of(shape, problems));
    TRY(add_changed(shape, problems[0], outputs));
    for (const Mutant& mutant : all_mutants()) {
      MutantOutcome outcome{mutant.name, shape.plan.shape->name, "", true, false};
      for (const Output& output : outputs) {
        TRY(try_mutant(mutant, shape, problems[0], output, outcome));
        if (!outcome.refused) break;
      }
      if (!outcome.applicable)
        outcome.reason = "not applicable: it is as right as an honest output here";
      outcomes.push_back(std::move(outcome));
    }
    session_.forget_solved();
    return {};
  }

 private:
  Status set_bounds(GpuShape& shape, const std::vector<GpuSolved>& problems) {
    for (size_t t = 0; t < task_.tensors.size(); ++t) {
      if (!shape.plan.sizes.is_output[t]) continue;
      for (const GpuSolved& solved : problems) {
        const ErrorFigures honest = TRY(session_.errors(shape, solved, t, true));
        shape.plan.bounds[t] =
            wider(shape.plan.bounds[t], TRY(session_.bound_for(shape, t, honest)));
      }
    }
    return {};
  }

  Status run_start(const GpuShape& shape) {
    std::optional<WorkerFailure> failure = add_shape(session_, plans_, shape, replayer_);
    if (!failure) {
      failure = replayer_
                    .ask({{"do", "run"},
                          {"shape", shape.index},
                          {"sets", {0}},
                          {"cache", "as_it_is"},
                          {"discard", 0},
                          {"seed", static_cast<int64_t>(session_.random().next() >> 2)}},
                         task_.measure.timeout_s + 5)
                    .failure;
    }
    if (!failure) failure = replayer_.ask({{"do", "forget"}, {"shape", shape.index}}, 10).failure;
    return failure ? start_fails(shape, failure->why) : Status();
  }

  static Status start_fails(const GpuShape& shape, const std::string& why) {
    return fail(Fault::invalid,
                "the starting solution fails at shape " + shape.plan.shape->name + ": " + why);
  }

  Result<std::vector<Output>> outputs_of(const GpuShape& shape,
                                         const std::vector<GpuSolved>& problems) {
    std::vector<Output> outputs;
    for (const auto& [tensor, bound] : shape.plan.bounds) {
      Output output;
      output.tensor = tensor;
      output.bytes = TRY(read_tensor(session_, shape, 0, tensor));
      output.places = TRY(looked_at(session_, shape, problems[0], tensor));
      for (const int64_t place : output.places)
        output.honest.push_back(element_at(task_.tensors[tensor].dtype, output.bytes.data(), place));
      output.expected = TRY(read_answer(session_, shape, problems[0].expected[tensor], tensor));
      output.other = TRY(read_answer(session_, shape, problems[1].expected[tensor], tensor));
      output.start = TRY(session_.errors(shape, problems[0], tensor, false));
      output.emulation = TRY(session_.errors(shape, problems[0], tensor, true));
      if (const std::string broken =
              broken_bound(output.start, bound, task_.tensors[tensor], shape.compact[tensor]);
          !broken.empty())
        TRY(start_fails(shape, broken));
      outputs.push_back(std::move(output));
    }
    return outputs;
  }

  Status add_changed(const GpuShape& shape, const GpuSolved& solved, std::vector<Output>& outputs) {
    const std::string sequence = sequence_axis(task_, shape.plan.extents);
    TRY(emulate_changed(shape, solved, without_the_first_half(shape, sequence), outputs,
                        &Output::forgetful));
    for (Output& output : outputs)
      TRY(splice(shape, sequence, output));
    TRY(emulate_changed(shape, solved,
                        without_the_first_half(shape, summed_axis(task_, shape.plan.extents)),
                        outputs, &Output::partial));
    const Change rounded = [&](size_t tensor, std::vector<char>& bytes) {
      const DType dtype = task_.tensors[tensor].dtype;
      if (dtype == DType::bf16) return;
      const int64_t count = static_cast<int64_t>(bytes.size()) / bytes_of(dtype);
      for (int64_t i = 0; i < count; ++i) {
        const float value = static_cast<float>(element_at(dtype, bytes.data(), i));
        set_element(dtype, bytes.data(), i,
                    static_cast<double>(bf16_to_float(float_to_bf16(value))));
      }
    };
    return emulate_changed(shape, solved, rounded, outputs, &Output::coarse);
  }

  // What the emulation says when the inputs of numbers are changed; afterwards they are as before.
  Status emulate_changed(const GpuShape& shape, const GpuSolved& solved, const Change& change,
                         std::vector<Output>& outputs, Values Output::* answer) {
    for (size_t t = 0; t < task_.tensors.size(); ++t) {
      if (shape.plan.sizes.is_output[t] || !is_floating(task_.tensors[t].dtype)) continue;
      std::vector<char> bytes = TRY(read_tensor(session_, shape, 0, t));
      const std::vector<char> before = bytes;
      change(t, bytes);
      if (bytes != before) TRY(write_tensor(session_, shape, 0, t, bytes));
    }
    TRY(session_.emulate(shape, solved));
    for (Output& output : outputs)
      output.*answer =
          TRY(read_answer(session_, shape, solved.emulated[output.tensor], output.tensor));
    return session_.fill(shape, 0, solved.seed);
  }

  Change without_the_first_half(const GpuShape& shape, const std::string& name) const {
    return [this, &shape, name](size_t tensor, std::vector<char>& bytes) {
      const std::optional<Axis> axis =
          axis_named(task_.tensors[tensor], shape.plan.extents[tensor], name);
      if (!axis) return;
      const size_t period = static_cast<size_t>(axis->extent * axis->step *
                                                bytes_of(task_.tensors[tensor].dtype)),
                   half = period / static_cast<size_t>(std::max<int64_t>(axis->extent, 1)) *
                          static_cast<size_t>(axis->extent / 2);
      for (size_t at = 0; period > 0 && at < bytes.size(); at += period)
        std::memset(bytes.data() + at, 0, half);
    };
  }

  // The truth in the first half of the sequence, what never saw it in the second. An output without
  // that axis (a last state) is all second half.
  Status splice(const GpuShape& shape, const std::string& sequence, Output& output) const {
    const std::optional<Axis> axis =
        axis_named(task_.tensors[output.tensor], shape.plan.extents[output.tensor], sequence);
    for (size_t i = 0; axis && i < output.places.size(); ++i) {
      if (axis->index(output.places[i]) < axis->extent / 2)
        output.forgetful[i] = output.expected[i];
    }
    return {};
  }

  // Where an honest kernel errs as much, such rounding is no fault.
  bool is_allowed(const Mutant& mutant, double allowed) const {
    const std::string name = mutant.name;
    if (name == "output rounded to fp16") return allowed >= fp16_step;
    return (name == "output rounded to bf16" || name == "inputs rounded to bf16") &&
           allowed >= bf16_step;
  }

  // Each output is spoilt alone, and each must be refused: one whose spoiling passes is a blind
  // spot of the checker.
  Status try_mutant(const Mutant& mutant, const GpuShape& shape, const GpuSolved& solved,
                    const Output& output, MutantOutcome& outcome) {
    const Tensor& tensor = task_.tensors[output.tensor];
    const ErrorBound& bound = shape.plan.bounds.at(output.tensor);
    if (output.honest.empty() || is_harmless(mutant.name, task_, tensor.dtype) ||
        is_allowed(mutant, bound.block))
      return {};
    const Material material{tensor.dtype,   shape.compact[output.tensor],
                            output.honest,  output.other,
                            output.forgetful, output.coarse,
                            output.partial, bound.block,
                            session_.random()};
    const Values spoilt = mutant.make(material);
    std::vector<char> bytes = output.bytes;
    for (size_t i = 0; i < spoilt.size(); ++i)
      set_element(tensor.dtype, bytes.data(), output.places[i], spoilt[i]);
    if (bytes == output.bytes) return {};
    TRY(write_tensor(session_, shape, 0, output.tensor, bytes));
    const ErrorFigures figures = TRY(session_.errors(shape, solved, output.tensor, false));
    TRY(write_tensor(session_, shape, 0, output.tensor, output.bytes));
    if (is_as_right(figures, output)) return {};
    outcome.applicable = true;
    outcome.reason = broken_bound(figures, bound, tensor, shape.compact[output.tensor]);
    if (!outcome.reason.empty()) return {};
    outcome.refused = false;
    outcome.reason =
        fmt::format("output {} passed with an error of {:.2e}", tensor.name, figures.block);
    return {};
  }

  static bool is_as_right(const ErrorFigures& mutant, const Output& honest) {
    const auto within = [&](double ErrorFigures::* figure) {
      return mutant.*figure <=
             as_right * std::max(honest.start.*figure, honest.emulation.*figure);
    };
    return mutant.not_finite.empty() && within(&ErrorFigures::block) &&
           within(&ErrorFigures::row) && within(&ErrorFigures::element);
  }

  GpuSession& session_;
  const Task& task_;
  const GpuPlans& plans_;
  GpuProcess& replayer_;
};

}  // namespace

Result<std::vector<MutantOutcome>> run_gpu_mutants(const BenchRequest& request, const Task& task) {
  const std::unique_ptr<GpuSession> session = TRY(GpuSession::make(request, task));
  const Fd lock = TRY(lock_core(gpu_lock_base + static_cast<int>(request.gpu), gpu_wait_s));
  const TempFolder folder = TRY(TempFolder::make("marathon-gpu"));
  std::erase_if(session->shapes(),
                [](const GpuShape& shape) { return shape.plan.shape->set != ShapeSet::listed; });
  const Planned planned =
      TRY(plan_all(*session, {{request.candidate, request.candidate_cubins}}, folder.path()));
  if (planned.failure)
    return fail(Fault::invalid, "the starting solution fails: " + planned.failure->why);
  const GpuPlans& plans = planned.arms.front();
  const std::shared_ptr<GpuProcess> replayer = TRY(begin_start(*session, plans, folder.path()));
  if (const std::optional<WorkerFailure> failure = finish_start(plans, *replayer))
    return fail(Fault::invalid, "the starting solution fails: " + failure->why);
  std::vector<MutantOutcome> outcomes;
  MutantRun run(*session, plans, *replayer);
  for (GpuShape& shape : session->shapes()) TRY(run.at_shape(shape, outcomes));
  return outcomes;
}

}  // namespace marathon
