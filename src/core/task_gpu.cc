// What only a task in CUDA or Triton may say, and what it may not (docs/gpu.md).
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/task_draft.h"

namespace marathon {

namespace {

constexpr Choice<Sanitizer> sanitizers[] = {{"memcheck", Sanitizer::memcheck},
                                            {"racecheck", Sanitizer::racecheck},
                                            {"synccheck", Sanitizer::synccheck},
                                            {"initcheck", Sanitizer::initcheck}};
constexpr int64_t largest_host_bytes = 1 << 20, most_sample_places = 1 << 20;

// With these nvcc would make other code than the judge asks for, or none that it can look at.
constexpr std::array<std::string_view, 16> refused_flags = {
    "-c",   "-dc",     "-dw",   "-o",   "-x",   "-ptx",  "-cubin", "-fatbin",
    "-lib", "-shared", "-link", "-run", "-ewp", "-dlto", "-lto",   "-arch"};
constexpr std::array<std::string_view, 18> refused_beginnings = {"-rdc",
                                                                 "--relocatable-device-code",
                                                                 "--device-c",
                                                                 "--device-w",
                                                                 "--extensible",
                                                                 "-gencode",
                                                                 "--generate-code",
                                                                 "-arch=",
                                                                 "--gpu-arch",
                                                                 "-code",
                                                                 "--gpu-code",
                                                                 "-cudart",
                                                                 "--cudart",
                                                                 "-lcudadevrt",
                                                                 "-keep",
                                                                 "--keep",
                                                                 "-ccbin",
                                                                 "--compiler-bindir"};

std::string for_gpu_tasks_only(std::string_view key) {
  return fmt::format("'{}' belongs to tasks in \"cuda\" or \"triton\"; remove it", key);
}

bool takes_over(std::string_view flag) {
  return std::ranges::find(refused_flags, flag) != refused_flags.end() ||
         std::ranges::any_of(refused_beginnings,
                             [&](std::string_view start) { return flag.starts_with(start); });
}

// Place of the first item of a list that is this text.
Position place_of(Section& section, std::string_view key, const std::string& text) {
  if (const TomlValue* list = section.find(key)) {
    for (const TomlValue& item : list->items) {
      if (item.text == text) return item.at;
    }
  }
  return section.at(key);
}

// The axis of a sample: its number, or the text of the one extent that it has.
std::optional<int64_t> axis_of(Section& sample, const Tensor& tensor) {
  const TomlValue* value = sample.find("axis");
  const int64_t count = static_cast<int64_t>(tensor.shape.size());
  if (value && value->type == TomlValue::Type::integer) {
    int64_t axis = 0;
    if (!sample.read("axis", axis, 0, std::max<int64_t>(count - 1, 0))) return std::nullopt;
    return axis;
  }
  std::string name;
  if (!sample.read("axis", name)) return std::nullopt;
  std::vector<std::string> extents;
  std::vector<int64_t> found;
  for (int64_t i = 0; i < count; ++i) {
    extents.push_back(tensor.shape[static_cast<size_t>(i)].text());
    if (extents.back() == name) found.push_back(i);
  }
  if (found.size() == 1) return found.front();
  sample.error(
      "axis",
      found.empty()
          ? fmt::format("no axis of {} has the extent {}{}", in_quotes(tensor.name),
                        in_quotes(name), suggestion(name, extents))
          : fmt::format("{} axes of {} have the extent {}; write the number of one, "
                        "as axis = {}",
                        found.size(), in_quotes(tensor.name), in_quotes(name), found.front()));
  return std::nullopt;
}

void read_sample(Section& section, Tensor& tensor, Draft& draft) {
  const TomlValue* table = section.table("sample");
  if (!table) return;
  const int64_t errors = draft.problems.errors();
  Section sample(*table, table->at, "the sample of " + in_quotes(tensor.name), draft.problems);
  Tensor::Sample read;
  sample.require("axis", "name the axis that is checked at some places only");
  const std::optional<int64_t> axis = axis_of(sample, tensor);
  sample.require("count", "write count = 16");
  sample.read("count", read.count, 1, most_sample_places);
  sample.finish();
  if (tensor.role == Role::input) {
    section.error("sample", "an input is not sampled: only outputs are checked; remove it");
  } else if (tensor.shape.empty()) {
    section.error("sample", "a single number has no axis to sample; remove it");
  }
  if (!axis || draft.problems.errors() > errors) return;
  read.axis = *axis;
  tensor.sample = read;
}

// Which sources a candidate in each of the task's languages has.
void check_source_languages(Section& section, Draft& draft) {
  const Task& task = draft.task;
  const auto is_in = [](Language language) {
    return [language](const std::string& source) { return language_of_source(source) == language; };
  };
  for (const std::string& source : task.build.sources) {
    const Language language = language_of_source(source);
    const bool fits = language == Language::triton ? speaks(task, Language::triton)
                                                   : speaks(task, Language::cuda);
    if (language == Language::triton && source.find('/') != std::string::npos) {
      draft.problems.error(place_of(section, "sources", source),
                           fmt::format("the module {} must not lie in a folder: what it imports is "
                                       "looked for beside it",
                                       in_quotes(source)));
    }
    if (fits) continue;
    draft.problems.error(
        place_of(section, "sources", source),
        fmt::format("the source {} is {}, which is not a 'language' of the task", in_quotes(source),
                    language == Language::triton ? "Python" : "CUDA or C++"));
  }
  const std::vector<std::string>& sources = task.build.sources;
  if (speaks(task, Language::cuda) && std::ranges::none_of(sources, is_in(Language::cuda)))
    section.error("sources", "no source ends in .cu; a candidate in CUDA needs one");
  const int64_t modules = std::ranges::count_if(sources, is_in(Language::triton));
  if (speaks(task, Language::triton) && modules != 1) {
    section.error("sources", fmt::format("{} sources end in .py; a candidate in Triton is one "
                                         "module (others are imported by it)",
                                         modules));
  }
}

const Distribution& distribution_at(const Tensor& tensor, const Shape& shape) {
  const std::map<std::string, Distribution>::const_iterator own =
      shape.distributions.find(tensor.name);
  return own == shape.distributions.end() ? tensor.distribution : own->second;
}

// Offsets say how many elements they are, and decide launches.
void check_offsets(Position at, const Tensor& tensor, int64_t elements, const Shape& shape,
                   Draft& draft) {
  const Distribution& distribution = distribution_at(tensor, shape);
  if (tensor.role == Role::output || distribution.kind != Distribution::Kind::offsets) return;
  const int64_t wanted = static_cast<int64_t>(distribution.lengths.size()) + 1;
  if (tensor.shape.size() != 1 || elements != wanted) {
    draft.problems.error(
        at, fmt::format("{} has {} {} of {} elements at shape {}; offsets of {} lengths need one "
                        "axis of {} elements",
                        in_quotes(tensor.name), tensor.shape.size(),
                        tensor.shape.size() == 1 ? "axis" : "axes", elements, in_quotes(shape.name),
                        wanted - 1, wanted));
  }
  if (is_gpu_task(draft.task) && !tensor.host) {
    draft.problems.error(at, fmt::format("{} holds offsets at shape {}, but lacks host = true: "
                                         "launches depend on them",
                                         in_quotes(tensor.name), in_quotes(shape.name)));
  }
}

void read_sanitizers(Section& section, Draft& draft) {
  std::vector<std::string> names, known;
  if (!section.read("sanitize", names, 100)) return;
  for (const Choice<Sanitizer>& one : sanitizers) known.emplace_back(one.name);
  std::vector<Sanitizer>& read = draft.task.judge.sanitize;
  for (size_t i = 0; i < names.size(); ++i) {
    const Position at = section.find("sanitize")->items[i].at;
    const Choice<Sanitizer>* found =
        std::ranges::find(sanitizers, names[i], &Choice<Sanitizer>::name);
    if (found == std::end(sanitizers)) {
      draft.problems.error(at, fmt::format("compute-sanitizer has no tool {}{}",
                                           in_quotes(names[i]), suggestion(names[i], known)));
    } else if (std::ranges::find(read, found->value) != read.end()) {
      draft.problems.error(
          at, fmt::format("{} stands twice in 'sanitize'; remove one", in_quotes(names[i])));
    } else {
      read.push_back(found->value);
    }
  }
}

}  // namespace

void read_judge(Section& root, Draft& draft) {
  const TomlValue* table = root.table("judge");
  if (!table) return;
  Section section(*table, table->at, "[judge]", draft.problems);
  read_sanitizers(section, draft);
  if (section.find("sanitize") && !is_gpu_task(draft.task))
    section.error("sanitize", for_gpu_tasks_only("sanitize"));
  section.finish();
}

bool refuse_nvcc_flag(const std::string& flag, Position at, Problems& problems) {
  if (!takes_over(flag)) return false;
  problems.error(at, fmt::format("{}: the judge itself chooses what nvcc makes, for which GPU, and "
                                 "that no device code is linked; remove it",
                                 in_quotes(flag)));
  return true;
}

void check_gpu_build(Section& section, Draft& draft) {
  const Build& build = draft.task.build;
  if (!build.sources.empty()) check_source_languages(section, draft);
  for (const std::string& flag : build.flags)
    refuse_nvcc_flag(flag, place_of(section, "flags", flag), draft.problems);
}

// What only a task for a GPU may say of a tensor.
void read_gpu_keys(Section& section, Tensor& tensor, Draft& draft) {
  const bool has_host = section.read("host", tensor.host);
  read_sample(section, tensor, draft);
  for (const std::string_view key : {"host", "sample"}) {
    if (section.find(key) && !is_gpu_task(draft.task)) {
      section.error(key, for_gpu_tasks_only(key));
    }
  }
  if (has_host && tensor.host && tensor.role == Role::output)
    section.error("host", "an output is not known before the launches; remove it");
}

void check_launch_table(Position at, const Tensor& tensor, int64_t elements, const Shape& shape,
                        Draft& draft) {
  if (tensor.host && elements > largest_host_bytes / bytes_of(tensor.dtype)) {
    draft.problems.error(at, fmt::format("tensor {} has host = true and {} elements of {} at shape "
                                         "{}: more than 1 MiB is no table of offsets",
                                         in_quotes(tensor.name), elements, to_string(tensor.dtype),
                                         in_quotes(shape.name)));
  }
  check_offsets(at, tensor, elements, shape, draft);
}

void read_timed(Section& section, Shape& shape, Draft& draft) {
  if (!section.read("timed", shape.timed)) return;
  if (shape.set != ShapeSet::hidden) {
    section.error("timed",
                  shape.set == ShapeSet::listed
                      ? "listed shapes are always timed; remove it"
                      : "stress shapes are only checked; make it set = \"hidden\" to time it");
  } else if (!is_gpu_task(draft.task)) {
    section.error("timed", for_gpu_tasks_only("timed"));
  }
}

}  // namespace marathon
