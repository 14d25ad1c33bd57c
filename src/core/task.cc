#include "core/task.h"

#include <fmt/format.h>

#include <algorithm>

namespace marathon {

std::string_view to_string(TaskKind kind) {
  switch (kind) {
    case TaskKind::kernel:
      return "kernel";
    case TaskKind::command:
      return "command";
  }
  return "";
}

std::string_view to_string(Language language) {
  switch (language) {
    case Language::cpp:
      return "c++";
    case Language::cuda:
      return "cuda";
    case Language::triton:
      return "triton";
  }
  return "";
}

std::string_view to_string(DType dtype) {
  switch (dtype) {
    case DType::fp32:
      return "fp32";
    case DType::fp64:
      return "fp64";
    case DType::bf16:
      return "bf16";
    case DType::fp16:
      return "fp16";
    case DType::int32:
      return "int32";
    case DType::int64:
      return "int64";
  }
  return "";
}

std::string_view to_string(ShapeSet set) {
  switch (set) {
    case ShapeSet::listed:
      return "listed";
    case ShapeSet::hidden:
      return "hidden";
    case ShapeSet::stress:
      return "stress";
  }
  return "";
}

std::string_view to_string(Direction direction) {
  switch (direction) {
    case Direction::minimize:
      return "minimize";
    case Direction::maximize:
      return "maximize";
  }
  return "";
}

std::string_view to_string(Sanitizer sanitizer) {
  switch (sanitizer) {
    case Sanitizer::memcheck:
      return "memcheck";
    case Sanitizer::racecheck:
      return "racecheck";
    case Sanitizer::synccheck:
      return "synccheck";
    case Sanitizer::initcheck:
      return "initcheck";
  }
  return "";
}

int64_t bytes_of(DType dtype) {
  switch (dtype) {
    case DType::bf16:
    case DType::fp16:
      return 2;
    case DType::fp32:
    case DType::int32:
      return 4;
    case DType::fp64:
    case DType::int64:
      return 8;
  }
  return 0;
}

bool speaks(const Task& task, Language language) {
  return std::ranges::find(task.languages, language) != task.languages.end();
}

bool is_gpu_task(const Task& task) {
  return task.kind == TaskKind::kernel &&
         (speaks(task, Language::cuda) || speaks(task, Language::triton));
}

Language language_of_source(std::string_view file_name) {
  if (file_name.ends_with(".py")) return Language::triton;
  return file_name.ends_with(".cu") ? Language::cuda : Language::cpp;
}

std::vector<std::string> sources_in(const Task& task, Language language) {
  std::vector<std::string> sources;
  for (const std::string& source : task.build.sources) {
    // Host code in C++ may stand beside CUDA's.
    const bool is_python = language_of_source(source) == Language::triton;
    if (is_python == (language == Language::triton)) sources.push_back(source);
  }
  return sources;
}

bool is_floating(DType dtype) { return dtype != DType::int32 && dtype != DType::int64; }

std::string to_string(const Diagnostic& diagnostic) {
  const std::string_view severity = diagnostic.warning ? "warning" : "error";
  if (diagnostic.line == 0) {
    return fmt::format("{}: {}: {}", diagnostic.file, severity, diagnostic.message);
  }
  return fmt::format("{}:{}:{}: {}: {}", diagnostic.file, diagnostic.line, diagnostic.column,
                     severity, diagnostic.message);
}

bool ParsedTask::ok() const { return std::ranges::all_of(diagnostics, &Diagnostic::warning); }

}  // namespace marathon
