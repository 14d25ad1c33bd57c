// parse_task: the table of contents of task.toml. Each section is read once, in an order in which
// everything that a name can mean is known before the name is met.
#include <fmt/format.h>

#include <algorithm>

#include "core/task_draft.h"

namespace marathon {

namespace {

constexpr Choice<TaskKind> kinds[] = {{"kernel", TaskKind::kernel}, {"command", TaskKind::command}};
constexpr Choice<Language> languages[] = {
    {"c++", Language::cpp}, {"cuda", Language::cuda}, {"triton", Language::triton}};

// Sections that only one kind of task has.
constexpr std::string_view kernel_only[] = {"build", "dims",    "tensor",  "shape", "tolerance",
                                            "floor", "measure", "profile", "judge"};

bool is_task_name(std::string_view name) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
  };
  return !name.empty() && name.size() <= 60 && name[0] != '-' && name[0] != '.' &&
         std::ranges::all_of(name, allowed);
}

void read_schema(Section& root, Draft& draft) {
  root.require("schema", "write schema = 1 as the first line");
  if (!root.read("schema", draft.task.schema, 0, 1LL << 40) || draft.task.schema == 1) return;
  root.error("schema",
             fmt::format("schema {} is not known to this version of Marathon, which reads "
                         "schema 1; write schema = 1 or install a newer version",
                         draft.task.schema));
}

void read_languages(Section& root, Draft& draft) {
  const TomlValue* value = root.find("language");
  if (!value) {
    if (draft.task.kind == TaskKind::kernel) {
      root.require("language", "write language = \"c++\"");
    }
    return;
  }
  std::vector<std::string> names;
  const bool read = value->type == TomlValue::Type::array
                        ? root.read("language", names, 3)
                        : root.read("language", names.emplace_back());
  if (!read) return;
  if (names.empty())
    root.error("language", "'language' is an empty list; write language = \"c++\"");
  const std::vector<std::string> known = {"c++", "cuda", "triton"};
  for (const std::string& name : names) {
    const Choice<Language>* at = std::ranges::find(languages, name, &Choice<Language>::name);
    if (at == std::end(languages)) {
      root.error("language",
                 fmt::format("unknown language {}{}", in_quotes(name), suggestion(name, known)));
    } else if (std::ranges::find(draft.task.languages, at->value) != draft.task.languages.end()) {
      root.error("language", fmt::format("language '{}' stands twice", name));
    } else {
      draft.task.languages.push_back(at->value);
    }
  }
  if (is_gpu_task(draft.task) && speaks(draft.task, Language::cpp)) {
    root.error("language",
               "\"c++\" runs on a CPU, the others on a GPU: one baseline cannot be measured "
               "against both; make two tasks");
  }
}

void read_heading(Section& root, Draft& draft) {
  Task& task = draft.task;
  read_schema(root, draft);
  root.require("name", "write name = \"my-task\"");
  if (root.read("name", task.name) && !is_task_name(task.name)) {
    root.error("name",
               fmt::format("the name {} must consist of a–z, 0–9, '-', '_' and '.', start with "
                           "a letter or digit and have at most 60 characters: runs and "
                           "folders are named after it",
                           in_quotes(task.name)));
  }
  task.title = task.name;
  root.read("title", task.title);
  root.read("description", task.description);
  root.require("kind", "write kind = \"kernel\" or kind = \"command\"");
  read_choice(root, "kind", kinds, task.kind, draft.problems);
  read_languages(root, draft);
}

void read_target(Section& root, Draft& draft) {
  const TomlValue* table = root.table("target");
  if (!table) return;
  Section section(*table, table->at, "[target]", draft.problems);
  Target& target = draft.task.target;
  if (section.read("speedup", target.speedup, {0, 1e6}) && target.speedup > 0 &&
      target.speedup < 1) {
    section.error("speedup",
                  fmt::format("a speed-up of {:g} is a loss; write 1.2 for 20 % faster, or "
                              "0 for as fast as it goes",
                              target.speedup));
  }
  section.read("text", target.text);
  section.finish();
}

// A section of the other kind is not unknown: say where it belongs.
void refuse_sections_of_other_kind(Section& root, Draft& draft) {
  if (draft.task.kind == TaskKind::kernel) {
    if (root.find("command")) {
      root.error("command", "[command] belongs to kind = \"command\"; this task is a kernel");
    }
    return;
  }
  for (const std::string_view name : kernel_only) {
    if (!root.find(name)) continue;
    root.error(name,
               fmt::format("'{}' belongs to kind = \"kernel\"; a command task says everything in "
                           "[command]",
                           name));
  }
}

void read_all(const TomlValue& table, Draft& draft) {
  Section root(table, {1, 1}, "the task", draft.problems);
  read_heading(root, draft);
  read_target(root, draft);
  read_files(root, draft);
  read_rules(root, draft);
  read_budget(root, draft);
  read_parameters(root, draft);
  if (draft.task.kind == TaskKind::kernel) {
    read_build(root, draft);
    read_tensors(root, draft);
    read_measure(root, draft);
    read_profile(root, draft);
    read_judge(root, draft);
  } else {
    read_command(root, draft);
  }
  refuse_sections_of_other_kind(root, draft);
  root.finish();
}

}  // namespace

ParsedTask parse_task(std::string_view toml, std::string_view file_name) {
  Draft draft{Task{}, Problems(file_name, toml), {}, {}, {}};
  Position at;
  const Result<TomlValue> table = parse_toml(toml, at);
  if (table) {
    read_all(*table, draft);
  } else {
    draft.problems.error(at, table.error().what);
  }
  return {std::move(draft.task), std::move(draft.problems).sorted()};
}

}  // namespace marathon
