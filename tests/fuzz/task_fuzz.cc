// Any bytes as task.toml: no crash, no hang, every problem with a place; and what a sound task
// promises afterwards holds: its extents exist, its start is valid, params.toml goes there and
// back.
//
//   task_fuzz -max_len=8192 -timeout=10 -dict=tests/fuzz/task.dict build/corpus
//   tests/fuzz/corpus/task
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "core/task.h"

namespace {

using namespace marathon;

void demand(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "task_fuzz: %s\n", what);
  std::abort();
}

void check_diagnostics(const ParsedTask& parsed) {
  bool error = false;
  for (const Diagnostic& diagnostic : parsed.diagnostics) {
    demand(diagnostic.line >= 1 && diagnostic.column >= 1, "a problem without a place");
    demand(!diagnostic.message.empty() && diagnostic.message.size() < 2000, "a strange message");
    for (const char c : diagnostic.message) {
      demand(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f,
             "a control character in a message");
    }
    error = error || !diagnostic.warning;
  }
  demand(error != parsed.ok(), "ok() and the errors disagree");
}

void check_shapes(const Task& task) {
  for (const Shape& shape : task.shapes) {
    demand(dims_of(task, shape).size() == task.dims.size(), "dims of a shape");
    for (const Tensor& tensor : task.tensors) {
      const Result<int64_t> elements = elements_of(task, tensor, shape);
      demand(elements && *elements >= 0, "extents of a sound task");
      demand(*elements <= (4LL << 30) / bytes_of(tensor.dtype), "a tensor above 4 GiB");
    }
  }
}

void check_configurations(const Task& task) {
  const Configuration start = start_configuration(task);
  demand(is_valid(task, start), "the start is not valid");
  const std::string text = to_params_toml(task, start);
  const Result<Configuration> back = parse_params_toml(task, text);
  demand(back && *back == start, "params.toml does not go there and back");
  demand(to_params_toml(task, *back) == text, "params.toml is not stable");
  for (const std::string& word : build_words(task, start)) demand(!word.empty(), "an empty word");
}

// Sound tasks are rare among random bytes: the tiny parser gets the bytes too.
void check_params(std::string_view text) {
  static const Task task = [] {
    Task two;
    two.parameters.push_back({"A", Parameter::Kind::define, {1, 2, 3}, {}, 1, "", ""});
    two.parameters.push_back({"B", Parameter::Kind::flag, {0, 1}, {"", "-O3"}, 0, "", ""});
    return two;
  }();
  const Result<Configuration> parsed = parse_params_toml(task, text);
  if (parsed) demand(is_valid(task, *parsed), "params.toml gave an undeclared value");
  if (!parsed)
    demand(parsed.error().what.starts_with("params.toml line "), "an error without line");
}

void check_expression(std::string_view text) {
  int64_t column = 0;
  const Result<Expression> parsed = Expression::parse(text, &column);
  if (!parsed) {
    demand(column >= 1 && column <= static_cast<int64_t>(text.size()) + 1, "a strange column");
    return;
  }
  const std::vector<int64_t> values(parsed->names().size(), 7);
  const std::optional<int64_t> fast = parsed->evaluate(values);
  const Result<int64_t> slow =
      parsed->evaluate([](std::string_view) { return std::optional<int64_t>(7); });
  demand(fast.has_value() == slow.has_value() && fast.value_or(0) == slow.value_or(0),
         "the two ways to evaluate disagree");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const ParsedTask parsed = parse_task(text, "task.toml");
  check_diagnostics(parsed);
  if (parsed.ok()) {
    check_shapes(parsed.task);
    check_configurations(parsed.task);
  }
  check_params(text);
  check_expression(text);
  return 0;
}
