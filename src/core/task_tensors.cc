// Dims, tensors, shapes, tolerance and floor of a kernel task.
#include <fmt/format.h>

#include <algorithm>

#include "core/task_draft.h"

namespace marathon {

namespace {

constexpr size_t most_dims = 32, most_tensors = 64, most_axes = 8, most_shapes = 200;
constexpr int64_t largest_dim = 1LL << 40;
constexpr int64_t largest_tensor_bytes = 4LL << 30;

constexpr Choice<Role> roles[] = {{"input", Role::input}, {"output", Role::output}};
constexpr Choice<DType> dtypes[] = {{"fp32", DType::fp32},   {"fp64", DType::fp64},
                                    {"bf16", DType::bf16},   {"fp16", DType::fp16},
                                    {"int32", DType::int32}, {"int64", DType::int64}};
constexpr Choice<ShapeSet> sets[] = {
    {"listed", ShapeSet::listed}, {"hidden", ShapeSet::hidden}, {"stress", ShapeSet::stress}};

void read_dims(Section& root, Draft& draft) {
  const TomlValue* table = root.table("dims");
  if (!table) return;
  Section section(*table, table->at, "[dims]", draft.problems);
  section.require("names", "write names = [\"N\", \"K\"]");
  std::vector<std::string> names;
  if (section.read("names", names, most_dims)) {
    for (size_t i = 0; i < names.size(); ++i) {
      const Position at = section.find("names")->items[i].at;
      if (check_identifier("dim", names[i], draft.task.dims, at, draft.problems)) {
        draft.task.dims.push_back(names[i]);
      }
    }
  }
  section.finish();
}

void read_axes(Section& section, Tensor& tensor, Draft& draft) {
  section.require("shape", "write shape = [\"N\", \"K\"], or [] for a single number");
  const TomlValue* list = section.array("shape");
  if (!list) return;
  if (list->items.size() > most_axes) {
    section.error("shape",
                  fmt::format("{} axes; at most {} are allowed", list->items.size(), most_axes));
    return;
  }
  for (const TomlValue& item : list->items) {
    std::optional<Expression> axis = read_expression(item, "dim", draft.task.dims, draft.problems);
    if (axis) tensor.shape.push_back(*std::move(axis));
  }
}

void read_values_of(Section& section, Tensor& tensor, Draft& draft) {
  const TomlValue* distribution = section.find("distribution");
  const bool has_norm =
      section.read("normalize_last_axis", tensor.normalize_last_axis, {0, 1e30, true});
  if (tensor.role == Role::output) {
    if (distribution) section.error("distribution", "an output has no distribution; remove it");
    if (has_norm) section.error("normalize_last_axis", "an output is not normalised; remove it");
    return;
  }
  if (distribution) {
    read_distribution(*distribution, tensor.name, tensor.dtype, tensor.distribution, draft);
  } else if (!is_floating(tensor.dtype)) {
    section.require("distribution",
                    "whole numbers need one, as { kind = \"integers\", low = 0, "
                    "high = 9 }");
  }
  if (has_norm && (!is_floating(tensor.dtype) || tensor.shape.empty())) {
    section.error("normalize_last_axis", "only a floating tensor with an axis can be normalised");
  }
}

void read_tensor(const TomlValue& table, Draft& draft) {
  Section section(table, table.at, "[[tensor]]", draft.problems);
  Tensor tensor;
  section.require("name", "write name = \"x\"");
  if (section.read("name", tensor.name)) {
    std::vector<std::string> used;
    for (const Tensor& other : draft.task.tensors) used.push_back(other.name);
    check_identifier("tensor", tensor.name, used, section.at("name"), draft.problems);
    section.rename("[[tensor]] " + in_quotes(tensor.name));
  }
  section.require("role", "write role = \"input\" or role = \"output\"");
  read_choice(section, "role", roles, tensor.role, draft.problems);
  section.require("dtype", "write dtype = \"fp32\"");
  read_choice(section, "dtype", dtypes, tensor.dtype, draft.problems);
  read_axes(section, tensor, draft);
  read_values_of(section, tensor, draft);
  read_gpu_keys(section, tensor, draft);
  section.finish();
  draft.task.tensors.push_back(std::move(tensor));
}

void read_shape_dims(Section& section, Shape& shape, Draft& draft) {
  if (!draft.task.dims.empty()) section.require("dims", "give every dim a value");
  const TomlValue* table = section.table("dims");
  if (!table) return;
  Section dims(*table, table->at, "the dims of " + section.name(), draft.problems);
  for (const std::string& name : draft.task.dims) {
    int64_t value = 0;
    if (!dims.find(name)) dims.require(name, "give every dim a value");
    if (dims.read(name, value, -largest_dim, largest_dim)) shape.dims[name] = value;
  }
  dims.finish();
}

void read_overrides(Section& section, Shape& shape, Draft& draft) {
  const TomlValue* table = section.table("distributions");
  if (!table) return;
  std::vector<std::string> inputs;
  for (const Tensor& tensor : draft.task.tensors) {
    if (tensor.role == Role::input) inputs.push_back(tensor.name);
  }
  for (const TomlEntry& entry : table->entries) {
    const std::vector<Tensor>::const_iterator tensor =
        std::ranges::find(draft.task.tensors, entry.key, &Tensor::name);
    if (tensor == draft.task.tensors.end() || tensor->role != Role::input) {
      draft.problems.error(entry.at, fmt::format("no input is named {}{}", in_quotes(entry.key),
                                                 suggestion(entry.key, inputs)));
      continue;
    }
    read_distribution(entry.value, entry.key, tensor->dtype, shape.distributions[entry.key], draft);
  }
}

void check_shape_name(Section& section, Shape& shape, Draft& draft) {
  section.require("name", "write name = \"N1024\"");
  if (!section.read("name", shape.name)) return;
  const Position at = section.at("name");
  section.rename("[[shape]] " + in_quotes(shape.name));
  const bool printable = std::ranges::all_of(shape.name, [](char c) { return c > ' ' && c < 127; });
  if (shape.name.empty() || shape.name.size() > 60 || !printable) {
    draft.problems.error(at, fmt::format("the shape name {} must have 1 to 60 printable characters "
                                         "without spaces",
                                         in_quotes(shape.name)));
  } else if (std::ranges::find(draft.task.shapes, shape.name, &Shape::name) !=
             draft.task.shapes.end()) {
    draft.problems.error(
        at, fmt::format("the shape name {} stands twice; rename one", in_quotes(shape.name)));
  }
}

// Extents, sizes and floor at this shape: what an expression alone cannot tell.
void check_extents(Position at, const Shape& shape, Draft& draft) {
  const Task& task = draft.task;
  for (const Tensor& tensor : task.tensors) {
    const Result<int64_t> elements = elements_of(task, tensor, shape);
    if (!elements) {
      draft.problems.error(at, elements.error().what);
      continue;
    }
    if (*elements == 0 && shape.set == ShapeSet::listed) {
      draft.problems.error(at,
                           fmt::format("tensor {} is empty at the listed shape {}; only hidden and "
                                       "stress shapes may have empty tensors",
                                       in_quotes(tensor.name), in_quotes(shape.name)));
    } else if (*elements == 0 && shape.timed) {
      draft.problems.error(at, fmt::format("tensor {} is empty at the timed shape {}",
                                           in_quotes(tensor.name), in_quotes(shape.name)));
    }
    if (*elements > largest_tensor_bytes / bytes_of(tensor.dtype)) {
      draft.problems.error(at,
                           fmt::format("tensor {} has {} elements of {} at shape {}: more than 4 "
                                       "GiB; choose smaller dims",
                                       in_quotes(tensor.name), *elements, to_string(tensor.dtype),
                                       in_quotes(shape.name)));
    }
    check_launch_table(at, tensor, *elements, shape, draft);
  }
}

bool same_work(const Shape& a, const Shape& b) {
  return a.dims == b.dims && a.distributions == b.distributions;
}

void read_shape(const TomlValue& table, Draft& draft) {
  Section section(table, table.at, "[[shape]]", draft.problems);
  const int64_t errors = draft.problems.errors();
  Shape shape;
  check_shape_name(section, shape, draft);
  section.require("set", "write set = \"listed\", \"hidden\" or \"stress\"");
  read_choice(section, "set", sets, shape.set, draft.problems);
  read_shape_dims(section, shape, draft);
  if (section.read("weight", shape.weight, {0, 1e6, true}) && shape.set != ShapeSet::listed) {
    section.error("weight", "only listed shapes are timed, so only they have a weight; remove it");
  }
  read_timed(section, shape, draft);
  read_overrides(section, shape, draft);
  section.finish();
  if (draft.problems.errors() == errors) {
    check_extents(section.at("dims"), shape, draft);
    for (const Shape& other : draft.task.shapes) {
      if (!same_work(shape, other)) continue;
      draft.problems.error(section.at(), fmt::format("shape {} repeats {}: same dims, same "
                                                     "distributions; change or remove one",
                                                     in_quotes(shape.name), in_quotes(other.name)));
      break;
    }
  }
  draft.task.shapes.push_back(std::move(shape));
  draft.shape_at.push_back(section.at("dims"));
}

void read_tolerance(Section& root, Draft& draft) {
  const TomlValue* table = root.table("tolerance");
  if (!table) return;
  Section section(*table, table->at, "[tolerance]", draft.problems);
  Tolerance& tolerance = draft.task.tolerance;
  // A relative error of 1 is what an output full of zeros has: no cap may reach it.
  const Range cap_range = {0, 0.5, true};
  section.read("factor", tolerance.factor, {1, 100});
  section.read("minimum", tolerance.minimum, {0, 0.5});
  section.read("worst_element_factor", tolerance.worst_element_factor, {1, 1e6});
  std::vector<std::string> outputs;
  for (const Tensor& tensor : draft.task.tensors) {
    if (tensor.role == Role::output) outputs.push_back(tensor.name);
  }
  double lowest = tolerance.default_cap;
  const TomlValue* cap = section.find("cap");
  if (cap && cap->type == TomlValue::Type::table) {
    Section caps(*cap, cap->at, "'cap' in [tolerance]", draft.problems);
    for (const std::string& output : outputs) {
      double value = 0;
      if (!caps.read(output, value, cap_range)) continue;
      tolerance.cap[output] = value;
      lowest = std::min(lowest, value);
    }
    caps.finish();
  } else if (section.read("cap", tolerance.default_cap, cap_range)) {
    lowest = tolerance.default_cap;
  }
  if (tolerance.minimum > lowest) {
    section.error("minimum",
                  fmt::format("minimum {:g} is above the cap {:g}; the bound is never above "
                              "the cap",
                              tolerance.minimum, lowest));
  }
  section.finish();
}

void check_floor_at(const Expression& expression, std::string_view key, Position at, Draft& draft) {
  for (const Shape& shape : draft.task.shapes) {
    const Result<int64_t> value = expression.evaluate([&](std::string_view name) {
      const std::map<std::string, int64_t>::const_iterator dim = shape.dims.find(std::string(name));
      return dim == shape.dims.end() ? std::optional<int64_t>() : dim->second;
    });
    if (!value) {
      draft.problems.error(at, fmt::format("'{}' in [floor] at shape {}: {}", key,
                                           in_quotes(shape.name), value.error().what));
      return;
    }
    if (*value >= 0) continue;
    draft.problems.error(
        at, fmt::format("'{}' in [floor] is {} at shape {}; it must not be negative", key, *value,
                        in_quotes(shape.name)));
    return;
  }
}

void read_floor(Section& root, bool shapes_are_sound, Draft& draft) {
  const TomlValue* table = root.table("floor");
  if (!table) return;
  Section section(*table, table->at, "[floor]", draft.problems);
  const auto read_one = [&](std::string_view key, std::optional<Expression>& out) {
    const TomlValue* value = section.find(key);
    if (!value) return;
    out = read_expression(*value, "dim", draft.task.dims, draft.problems);
    if (out && shapes_are_sound) check_floor_at(*out, key, value->at, draft);
  };
  read_one("flops", draft.task.floor.flops);
  read_one("bytes", draft.task.floor.bytes);
  section.finish();
}

void check_roles(Section& root, Draft& draft) {
  const auto has = [&](Role role) {
    return std::ranges::find(draft.task.tensors, role, &Tensor::role) != draft.task.tensors.end();
  };
  if (!draft.task.tensors.empty() && !has(Role::output)) {
    root.error("tensor", "no tensor is an output; nothing could be checked");
  }
  if (!draft.task.tensors.empty() && !has(Role::input)) {
    root.error("tensor",
               "no tensor is an input; every call would give the same and could be stored");
  }
  const bool listed = std::ranges::find(draft.task.shapes, ShapeSet::listed, &Shape::set) !=
                      draft.task.shapes.end();
  if (root.find("shape") && !listed) {
    root.error("shape",
               "no shape is listed; nothing would be timed. Write set = \"listed\" for one");
  }
}

}  // namespace

void read_tensors(Section& root, Draft& draft) {
  const int64_t errors = draft.problems.errors();
  read_dims(root, draft);
  root.require("tensor", "add [[tensor]] with name, role, dtype and shape for each of them");
  for (const TomlValue* table : root.tables("tensor", most_tensors)) read_tensor(*table, draft);
  root.require("shape", "add [[shape]] with name, set = \"listed\" and dims");
  for (const TomlValue* table : root.tables("shape", most_shapes)) read_shape(*table, draft);
  check_roles(root, draft);
  const bool sound = draft.problems.errors() == errors;
  read_tolerance(root, draft);
  read_floor(root, sound, draft);
}

}  // namespace marathon
