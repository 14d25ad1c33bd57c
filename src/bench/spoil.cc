#include "bench/spoil.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace marathon {

namespace {

constexpr size_t row_limit = 128, block_rows = 64, tile_limit = 16;

double rms(const Values& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return values.empty() ? 0 : std::sqrt(sum / static_cast<double>(values.size()));
}

Values rounded(const Values& values, DType dtype) {
  std::vector<char> bytes(values.size() * static_cast<size_t>(bytes_of(dtype)));
  from_doubles(dtype, values, bytes.data());
  return to_doubles(dtype, bytes.data(), static_cast<int64_t>(values.size()));
}

Values mapped(const Values& values, const std::function<double(double)>& change) {
  Values result = values;
  for (double& value : result) value = change(value);
  return result;
}

size_t last_axis(const Material& m) {
  return m.extents.empty() ? 1 : static_cast<size_t>(std::max<int64_t>(1, m.extents.back()));
}
size_t row_size(const Material& m) { return std::min(last_axis(m), row_limit); }
size_t row_count(const Material& m) { return std::max<size_t>(1, m.honest.size() / row_size(m)); }

Values with_rows(const Material& m, size_t first, size_t count,
                 const std::function<double(double)>& change) {
  Values result = m.honest;
  const size_t begin = first * row_size(m);
  const size_t end = std::min(result.size(), begin + count * row_size(m));
  for (size_t i = begin; i < end; ++i) result[i] = change(result[i]);
  return result;
}

Values with_random_row(const Material& m, const std::function<double(double)>& change) {
  return with_rows(m, m.random.below(row_count(m)), 1, change);
}

Values with_zeroed_block(const Material& m) {
  const size_t blocks = (row_count(m) + block_rows - 1) / block_rows;
  return with_rows(m, m.random.below(blocks) * block_rows, block_rows, [](double) { return 0.0; });
}

Values with_element(const Material& m, const std::function<double(double)>& change) {
  Values result = m.honest;
  double& value = result[m.random.below(result.size())];
  value = change(value);
  return result;
}

Values with_rows_exchanged(const Material& m) {
  Values result = m.honest;
  const size_t row = row_size(m), rows = result.size() / row;
  if (rows < 2) return result;
  const size_t a = m.random.below(rows), b = (a + 1 + m.random.below(rows - 1)) % rows;
  for (size_t i = 0; i < row; ++i) std::swap(result[a * row + i], result[b * row + i]);
  return result;
}

// Indices 0 and 1 of the shortest axis but the last that has two: heads, batches.
Values with_heads_exchanged(const Material& m) {
  Values result = m.honest;
  size_t step = last_axis(m), best_step = 0;
  int64_t best = std::numeric_limits<int64_t>::max();
  for (size_t axis = m.extents.size(); axis-- > 1;) {
    const int64_t extent = m.extents[axis - 1];
    if (extent >= 2 && extent < best) {
      best = extent;
      best_step = step;
    }
    step *= static_cast<size_t>(extent);
  }
  if (best_step == 0) return result;
  const size_t period = best_step * static_cast<size_t>(best);
  for (size_t outer = 0; outer + period <= result.size(); outer += period) {
    for (size_t i = outer; i < outer + best_step; ++i) std::swap(result[i], result[i + best_step]);
  }
  return result;
}

Values with_tile_transposed(const Material& m) {
  Values result = m.honest;
  const size_t columns = last_axis(m), rows = result.size() / columns;
  const size_t tile = std::min({columns, rows, tile_limit});
  for (size_t i = 0; i < tile; ++i) {
    for (size_t j = 0; j < i; ++j) std::swap(result[i * columns + j], result[j * columns + i]);
  }
  return result;
}

Values random_bits(const Material& m) {
  std::vector<char> bytes(m.honest.size() * static_cast<size_t>(bytes_of(m.dtype)));
  for (char& byte : bytes) byte = static_cast<char>(m.random.next() >> 56);
  return to_doubles(m.dtype, bytes.data(), static_cast<int64_t>(m.honest.size()));
}

// Two parts in a thousand, or what is clearly more than the dtype's own rounding.
double small_scale(DType dtype) {
  switch (dtype) {
    case DType::bf16:
      return 1 + 4 * 0x1p-8;
    case DType::fp16:
      return 1 + 4 * 0x1p-11;
    case DType::fp32:
    case DType::fp64:
    case DType::int32:
    case DType::int64:
      return 1.002;
  }
  return 1.002;
}

double zero(double) { return 0; }

}  // namespace

const std::vector<Mutant>& all_mutants() {
  const auto nan = [](double) { return std::nan(""); };
  static const std::vector<Mutant> list = {
      {"zeros", [](const Material& m) { return mapped(m.honest, zero); }},
      {"a constant", [](const Material& m) { return Values(m.honest.size(), rms(m.honest)); }},
      {"one zeroed row", [](const Material& m) { return with_random_row(m, zero); }},
      {"the last row zeroed",
       [](const Material& m) { return with_rows(m, row_count(m) - 1, 1, zero); }},
      {"one zeroed block of 64 rows", with_zeroed_block},
      {"one row twice as large",
       [](const Material& m) { return with_random_row(m, [](double x) { return 2 * x; }); }},
      {"never written", random_bits},
      {"the answer to other inputs", [](const Material& m) { return m.other; }},
      {"forgets the first half", [](const Material& m) { return m.forgetful; }},
      {"leaves out half of a sum", [](const Material& m) { return m.partial; }},
      {"inputs rounded to bf16", [](const Material& m) { return m.coarse; }},
      {"output rounded to bf16", [](const Material& m) { return rounded(m.honest, DType::bf16); }},
      {"output rounded to fp16", [](const Material& m) { return rounded(m.honest, DType::fp16); }},
      {"scaled a little",
       [](const Material& m) {
         const double scale = std::max(small_scale(m.dtype), 1 + 2 * m.allowed);
         return mapped(m.honest, [scale](double x) { return scale * x; });
       }},
      {"one NaN", [nan](const Material& m) { return with_element(m, nan); }},
      {"all NaN", [nan](const Material& m) { return mapped(m.honest, nan); }},
      {"one infinity",
       [](const Material& m) {
         return with_element(m, [](double) { return std::numeric_limits<double>::infinity(); });
       }},
      {"one element off by ten RMS",
       [](const Material& m) {
         return with_element(m, [off = 10 * rms(m.honest)](double x) { return x + off; });
       }},
      {"two rows exchanged", with_rows_exchanged},
      {"two heads exchanged", with_heads_exchanged},
      {"a tile transposed", with_tile_transposed},
      {"sign flipped",
       [](const Material& m) { return mapped(m.honest, [](double x) { return -x; }); }},
  };
  return list;
}

std::optional<Axis> axis_named(const Tensor& tensor, const std::vector<int64_t>& extents,
                               const std::string& name) {
  int64_t step = 1;
  for (size_t axis = extents.size(); axis-- > 0;) {
    if (tensor.shape[axis].text() == name) return Axis{extents[axis], step};
    step *= extents[axis];
  }
  return std::nullopt;
}

std::string sequence_axis(const Task& task, const std::vector<std::vector<int64_t>>& extents) {
  std::string name;
  int64_t longest = 0;
  for (size_t i = 0; i < task.tensors.size(); ++i) {
    if (task.tensors[i].role != Role::output) continue;
    const size_t all = extents[i].size(), axes = all > 1 ? all - 1 : all;
    for (size_t axis = 0; axis < axes; ++axis) {
      if (extents[i][axis] <= longest) continue;
      longest = extents[i][axis];
      name = task.tensors[i].shape[axis].text();
    }
  }
  return name;
}

std::string summed_axis(const Task& task, const std::vector<std::vector<int64_t>>& extents) {
  const auto is_kept = [&](const std::string& name) {
    return std::any_of(task.tensors.begin(), task.tensors.end(), [&](const Tensor& tensor) {
      return tensor.role == Role::output &&
             std::any_of(tensor.shape.begin(), tensor.shape.end(),
                         [&](const Expression& extent) { return extent.text() == name; });
    });
  };
  std::string name;
  int64_t longest = 1;
  for (size_t i = 0; i < task.tensors.size(); ++i) {
    if (task.tensors[i].role == Role::output || !is_floating(task.tensors[i].dtype)) continue;
    for (size_t axis = 0; axis < extents[i].size(); ++axis) {
      const std::string text = task.tensors[i].shape[axis].text();
      if (extents[i][axis] <= longest || is_kept(text)) continue;
      longest = extents[i][axis];
      name = text;
    }
  }
  return name;
}

bool is_harmless(const std::string& mutant, const Task& task, DType output) {
  if (mutant == "output rounded to bf16") return output == DType::bf16 || !is_floating(output);
  if (mutant == "output rounded to fp16")
    return output == DType::fp16 || output == DType::bf16 || !is_floating(output);
  if (mutant != "inputs rounded to bf16") return false;
  return std::all_of(task.tensors.begin(), task.tensors.end(), [](const Tensor& tensor) {
    return tensor.role == Role::output || tensor.dtype == DType::bf16 || !is_floating(tensor.dtype);
  });
}

}  // namespace marathon
