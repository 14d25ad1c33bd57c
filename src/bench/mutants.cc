#include "bench/mutants.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "bench/check.h"
#include "bench/dtype.h"
#include "bench/measure.h"

namespace marathon {

namespace {

using Values = std::vector<double>;

// What a mutant may use: the honest output, the truth, and outputs of other problems.
struct Material {
  DType dtype;
  int64_t last_axis;
  Values honest;     // of the starting solution
  Values other;      // right for other inputs
  Values forgetful;  // emulation with the first half of every input zero
  Values coarse;     // emulation on inputs rounded to bf16
  Random& random;
};

double rms(const Values& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return values.empty() ? 0 : std::sqrt(sum / static_cast<double>(values.size()));
}

Values rounded(const Values& values, DType dtype) {
  Values result = values;
  std::vector<char> bytes(8);
  for (double& value : result) {
    set_element(dtype, bytes.data(), 0, value);
    value = element_at(dtype, bytes.data(), 0);
  }
  return result;
}

size_t row_of(const Material& m) {
  return static_cast<size_t>(std::clamp<int64_t>(m.last_axis, 1, 128));
}

Values with_row(const Material& m, const std::function<double(double)>& change) {
  Values result = m.honest;
  const size_t row = row_of(m), rows = std::max<size_t>(1, result.size() / row);
  const size_t first = m.random.below(rows) * row;
  for (size_t i = first; i < std::min(first + row, result.size()); ++i)
    result[i] = change(result[i]);
  return result;
}

Values with_element(const Material& m, double value) {
  Values result = m.honest;
  result[m.random.below(result.size())] = value;
  return result;
}

Values swapped_rows(const Material& m) {
  Values result = m.honest;
  const size_t row = row_of(m), rows = result.size() / row;
  if (rows < 2) return result;
  const size_t a = m.random.below(rows), b = (a + 1 + m.random.below(rows - 1)) % rows;
  std::swap_ranges(result.begin() + static_cast<std::ptrdiff_t>(a * row),
                   result.begin() + static_cast<std::ptrdiff_t>((a + 1) * row),
                   result.begin() + static_cast<std::ptrdiff_t>(b * row));
  return result;
}

Values second_half_from(const Values& first, const Values& second) {
  Values result = first;
  std::copy(second.begin() + static_cast<std::ptrdiff_t>(second.size() / 2), second.end(),
            result.begin() + static_cast<std::ptrdiff_t>(second.size() / 2));
  return result;
}

Values random_bits(const Material& m) {
  std::vector<char> bytes(m.honest.size() * static_cast<size_t>(bytes_of(m.dtype)));
  for (char& byte : bytes) byte = static_cast<char>(m.random.next() >> 56);
  return to_doubles(m.dtype, bytes.data(), static_cast<int64_t>(m.honest.size()));
}

Values mapped(const Values& values, const std::function<double(double)>& change) {
  Values result = values;
  for (double& value : result) value = change(value);
  return result;
}

struct Mutant {
  const char* name;
  std::function<Values(const Material&)> make;
};

const std::vector<Mutant>& all_mutants() {
  static const std::vector<Mutant> list = {
      {"zeros", [](const Material& m) { return Values(m.honest.size(), 0.0); }},
      {"a constant", [](const Material& m) { return Values(m.honest.size(), rms(m.honest)); }},
      {"one zeroed row", [](const Material& m) { return with_row(m, [](double) { return 0.0; }); }},
      {"one row twice as large",
       [](const Material& m) { return with_row(m, [](double x) { return 2 * x; }); }},
      {"never written", [](const Material& m) { return random_bits(m); }},
      {"the answer to other inputs", [](const Material& m) { return m.other; }},
      {"forgets the first half",
       [](const Material& m) { return second_half_from(m.honest, m.forgetful); }},
      {"inputs rounded to bf16", [](const Material& m) { return m.coarse; }},
      {"output rounded to bf16", [](const Material& m) { return rounded(m.honest, DType::bf16); }},
      {"output rounded to fp16", [](const Material& m) { return rounded(m.honest, DType::fp16); }},
      {"scaled by 1.002",
       [](const Material& m) { return mapped(m.honest, [](double x) { return 1.002 * x; }); }},
      {"one NaN", [](const Material& m) { return with_element(m, std::nan("")); }},
      {"all NaN", [](const Material& m) { return Values(m.honest.size(), std::nan("")); }},
      {"one infinity", [](const Material& m) { return with_element(m, INFINITY); }},
      {"one element off by ten RMS",
       [](const Material& m) { return with_element(m, 10 * rms(m.honest) + 1e-30); }},
      {"two rows exchanged", swapped_rows},
      {"sign flipped",
       [](const Material& m) { return mapped(m.honest, [](double x) { return -x; }); }},
  };
  return list;
}

// Rounding to a type that the output or every input has already changes nothing that is wrong.
bool rounds_to_own_type(const std::string& mutant, const Task& task, DType output) {
  if (mutant == "output rounded to bf16") return output == DType::bf16 || !is_floating(output);
  if (mutant == "output rounded to fp16")
    return output == DType::fp16 || output == DType::bf16 || !is_floating(output);
  if (mutant != "inputs rounded to bf16") return false;
  return std::all_of(task.tensors.begin(), task.tensors.end(), [](const Tensor& tensor) {
    return tensor.role == Role::output || tensor.dtype == DType::bf16 || !is_floating(tensor.dtype);
  });
}

Problem inputs_of(const Session& session, const ShapePlan& plan, const Window& window,
                  const std::function<double(double, bool)>& change) {
  Problem problem;
  problem.dims = plan.dims;
  for (size_t i = 0; i < session.task.tensors.size(); ++i) {
    const Tensor& tensor = session.task.tensors[i];
    const int64_t count = plan.sizes.tensor_bytes[i] / bytes_of(tensor.dtype);
    if (tensor.role == Role::output) {
      problem.tensors.emplace_back(static_cast<size_t>(count));
      continue;
    }
    Values values =
        to_doubles(tensor.dtype, session.inputs->data() + window.layout.tensors[0][i], count);
    if (is_floating(tensor.dtype)) {
      for (size_t e = 0; e < values.size(); ++e)
        values[e] = change(values[e], e < values.size() / 2);
    }
    problem.tensors.push_back(std::move(values));
  }
  return problem;
}

class MutantRun {
 public:
  MutantRun(Session& session, const std::filesystem::path& library)
      : session_(session), library_(library) {}

  Status at_shape(const ShapePlan& plan, std::vector<MutantOutcome>& outcomes) {
    Worker worker = TRY(session_.start(library_));
    const Window window = TRY(make_window(session_, plan, 2, false));
    if (const std::optional<ShapeFailure> failure =
            run_window(session_, plan, window, 2, worker, nullptr)) {
      return fail(Fault::invalid,
                  "the starting solution fails at shape " + plan.shape->name + ": " + failure->why);
    }
    Problem forgetful = inputs_of(session_, plan, window,
                                  [](double x, bool first_half) { return first_half ? 0 : x; });
    Problem coarse = inputs_of(session_, plan, window, [](double x, bool) {
      return static_cast<double>(bf16_to_float(float_to_bf16(static_cast<float>(x))));
    });
    TRY(session_.emulation.run(session_.task, forgetful));
    TRY(session_.emulation.run(session_.task, coarse));
    for (const Mutant& mutant : all_mutants())
      outcomes.push_back(try_mutant(mutant, plan, window, worker, forgetful, coarse));
    return {};
  }

 private:
  // A mutant is refused when at least one output that it spoils is refused; each is spoilt alone,
  // and the worst case counts: an output whose spoiling passes makes the checker blind there.
  MutantOutcome try_mutant(const Mutant& mutant, const ShapePlan& plan, const Window& window,
                           const Worker& worker, const Problem& forgetful, const Problem& coarse) {
    MutantOutcome outcome{mutant.name, plan.shape->name, "", true, false};
    for (const auto& [tensor, expected] : window.expected[0]) {
      const Tensor& output = session_.task.tensors[tensor];
      if (expected.empty() || rounds_to_own_type(mutant.name, session_.task, output.dtype))
        continue;
      const Result<std::vector<int64_t>> extents = extents_of(session_.task, output, *plan.shape);
      const int64_t last_axis = extents && !extents->empty() ? extents->back() : 1;
      const Material material{output.dtype,
                              last_axis,
                              output_of(session_, plan, window, 0, tensor, worker),
                              window.expected[1].at(tensor),
                              forgetful.tensors[tensor],
                              coarse.tensors[tensor],
                              session_.random};
      const Values spoilt = mutant.make(material);
      const bool unchanged = std::equal(spoilt.begin(), spoilt.end(), material.honest.begin());
      if (unchanged || equals_truth(spoilt, expected, last_axis)) continue;
      outcome.applicable = true;
      const std::string why =
          broken_bound(errors_of(spoilt, expected, last_axis), plan.bounds.at(tensor), output.name,
                       extents ? *extents : std::vector<int64_t>());
      if (why.empty()) {
        outcome.refused = false;
        outcome.reason = "output " + output.name + " passed";
        return outcome;
      }
      outcome.reason = why;
    }
    if (!outcome.applicable) outcome.reason = "not applicable: it equals the truth here";
    return outcome;
  }

  // Two rows that are equal in truth may be exchanged; forgetting is right where nothing is
  // carried.
  static bool equals_truth(const Values& spoilt, const Values& expected, int64_t last_axis) {
    const ErrorFigures figures = errors_of(spoilt, expected, last_axis);
    return figures.not_finite.empty() && figures.row < 1e-9;
  }

  Session& session_;
  const std::filesystem::path& library_;
};

}  // namespace

Result<std::vector<MutantOutcome>> run_mutants(const BenchRequest& request, const Task& task) {
  std::optional<WorkerFailure> failure;
  const std::unique_ptr<Session> session =
      TRY(make_session(request, task, request.seed, {request.candidate}, failure));
  if (failure) return fail(Fault::invalid, "the starting solution fails: " + failure->why);
  const CheckResult checked = TRY(check_candidate(*session, request.candidate));
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
