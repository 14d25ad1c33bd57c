// Extents of tensors at a shape.
#include <fmt/format.h>

#include "core/task.h"

namespace marathon {

std::vector<int64_t> dims_of(const Task& task, const Shape& shape) {
  std::vector<int64_t> values;
  values.reserve(task.dims.size());
  for (const std::string& name : task.dims) {
    const std::map<std::string, int64_t>::const_iterator at = shape.dims.find(name);
    values.push_back(at == shape.dims.end() ? 0 : at->second);
  }
  return values;
}

Result<std::vector<int64_t>> extents_of(const Task&, const Tensor& tensor, const Shape& shape) {
  const Expression::Lookup lookup = [&](std::string_view name) -> std::optional<int64_t> {
    const std::map<std::string, int64_t>::const_iterator at = shape.dims.find(std::string(name));
    if (at == shape.dims.end()) return std::nullopt;
    return at->second;
  };
  std::vector<int64_t> extents;
  extents.reserve(tensor.shape.size());
  for (const Expression& axis : tensor.shape) {
    const int64_t extent = TRY(axis.evaluate(lookup));
    if (extent < 0) {
      return fail(
          Fault::invalid,
          fmt::format("axis '{}' of tensor '{}' is {} at shape '{}'; it must not be negative",
                      axis.text(), tensor.name, extent, shape.name));
    }
    extents.push_back(extent);
  }
  return extents;
}

Result<int64_t> elements_of(const Task& task, const Tensor& tensor, const Shape& shape) {
  int64_t elements = 1;
  bool overflow = false, empty = false;
  for (const int64_t extent : TRY(extents_of(task, tensor, shape))) {
    overflow = __builtin_mul_overflow(elements, extent, &elements) || overflow;
    empty = empty || extent == 0;
  }
  if (empty) return 0;
  if (overflow) {
    return fail(Fault::invalid, fmt::format("tensor '{}' at shape '{}' has more than 2^63 elements",
                                            tensor.name, shape.name));
  }
  return elements;
}

}  // namespace marathon
