#include "judge/profile_task.h"

namespace marathon {

namespace {

double value_of(const std::optional<Expression>& expression, const Shape& shape) {
  if (!expression) return 0;
  const Result<int64_t> value =
      expression->evaluate([&](std::string_view name) -> std::optional<int64_t> {
        const auto found = shape.dims.find(std::string(name));
        return found == shape.dims.end() ? std::nullopt : std::optional<int64_t>(found->second);
      });
  return value ? static_cast<double>(*value) : 0;
}

double bytes_of_tensors(const Task& task, const Shape& shape) {
  double bytes = 0;
  for (const Tensor& tensor : task.tensors) {
    const Result<int64_t> elements = elements_of(task, tensor, shape);
    if (elements) bytes += static_cast<double>(*elements * bytes_of(tensor.dtype));
  }
  return bytes;
}

}  // namespace

const Shape* shape_to_profile(const Task& task) {
  const Shape* chosen = nullptr;
  for (const Shape& shape : task.shapes) {
    if (shape.set != ShapeSet::listed) continue;
    if (shape.name == task.profile.shape) return &shape;
    if (!chosen || shape.weight > chosen->weight) chosen = &shape;
  }
  return chosen;
}

const Shape* smallest_shape(const Task& task) {
  const Shape* chosen = nullptr;
  for (const Shape& shape : task.shapes) {
    if (shape.set != ShapeSet::listed) continue;
    if (!chosen || bytes_of_tensors(task, shape) < bytes_of_tensors(task, *chosen)) chosen = &shape;
  }
  return chosen;
}

ProfileFacts known_facts(const Task& task, const Shape& shape, const Verdict& verdict) {
  ProfileFacts facts;
  facts.shape = shape.name;
  facts.flops = value_of(task.floor.flops, shape);
  facts.bytes =
      task.floor.bytes ? value_of(task.floor.bytes, shape) : bytes_of_tensors(task, shape);
  facts.peak_gflops = verdict.provenance.peak_gflops;
  facts.peak_gbytes_s = verdict.provenance.peak_gbytes_s;
  for (const ShapeResult& result : verdict.shapes) {
    if (result.name != shape.name) continue;
    facts.time_us = result.time_us;
    facts.floor_us = result.floor_us;
    facts.cold_us = result.cold_us;
    facts.bound_by = result.bound_by;
  }
  return facts;
}

}  // namespace marathon
