// The sections of task.toml that are read key by key: files, build, rules, measure, budget,
// profile, command.
#include <fmt/format.h>

#include <algorithm>
#include <regex>

#include "base/file.h"
#include "core/task_draft.h"

namespace marathon {

namespace {

constexpr size_t most_files = 200;
constexpr size_t most_words = 200;
constexpr double day_s = 86400;
constexpr Choice<CacheState> cache_states[] = {{"warm", CacheState::warm},
                                               {"cold", CacheState::cold}};
constexpr Choice<Direction> directions[] = {{"minimize", Direction::minimize},
                                            {"maximize", Direction::maximize}};

bool has_control(std::string_view text) {
  return std::ranges::any_of(
      text, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

// Position of the i-th item of a list, or of the list.
Position item_at(Section& section, std::string_view key, size_t i) {
  const TomlValue* value = section.find(key);
  return value && i < value->items.size() ? value->items[i].at : section.at(key);
}

bool check_path(Section& section, std::string_view key, Position at, const std::string& path,
                bool may_be_pattern, Problems& problems) {
  const std::filesystem::path normal = std::filesystem::path(path).lexically_normal();
  std::string why;
  if (path.empty())
    why = "is empty";
  else if (path.size() > 200)
    why = "is longer than 200 bytes";
  else if (has_control(path) || path.find('\\') != std::string::npos)
    why = "holds a control character or a backslash";
  else if (normal.string() != path || path.ends_with('/'))
    why = "must be written without '.', '//' or a '/' at its end";
  else if (!is_safe_relative(normal))
    why = "must be relative and stay below its folder";
  else if (!may_be_pattern && path.find('*') != std::string::npos)
    why = "must name one file, not a pattern";
  else if (path.substr(0, path.rfind('/') + 1).find('*') != std::string::npos)
    why = "may have '*' only in its last part: patterns work inside one folder";
  if (why.empty()) return true;
  problems.error(
      at, fmt::format("the path {} ('{}' in {}) {}", in_quotes(path), key, section.name(), why));
  return false;
}

void read_path(Section& section, std::string_view key, std::string& out, Problems& problems) {
  if (section.read(key, out)) check_path(section, key, section.at(key), out, false, problems);
}

// Keeps only the good ones, so that the checks between lists need not ask again.
void read_paths(Section& section, std::string_view key, bool patterns,
                std::vector<std::string>& out, Problems& problems) {
  std::vector<std::string> paths;
  if (!section.read(key, paths, most_files)) return;
  for (size_t i = 0; i < paths.size(); ++i) {
    const Position at = item_at(section, key, i);
    if (!check_path(section, key, at, paths[i], patterns, problems)) continue;
    if (std::ranges::find(out, paths[i]) != out.end()) {
      problems.error(at,
                     fmt::format("{} stands twice in '{}'; remove one", in_quotes(paths[i]), key));
      continue;
    }
    out.push_back(paths[i]);
  }
}

bool matches_any(const std::vector<std::string>& patterns, const std::string& path) {
  return std::ranges::any_of(
      patterns, [&](const std::string& pattern) { return patterns_overlap(pattern, path); });
}

void check_overlaps(Section& section, Draft& draft) {
  const Files& files = draft.task.files;
  for (const std::string& frozen : files.frozen) {
    for (const std::string& editable : files.editable) {
      if (!patterns_overlap(editable, frozen)) continue;
      section.error(
          "frozen",
          fmt::format("{} is frozen, but {} makes it editable; a file is one or the other",
                      in_quotes(frozen), in_quotes(editable)));
    }
  }
  if (draft.task.kind != TaskKind::kernel) return;
  for (const std::string_view key : {"editable", "frozen"}) {
    for (const std::string& oracle : {files.oracle, files.cpu_oracle}) {
      const std::vector<std::string>& patterns = key == "editable" ? files.editable : files.frozen;
      if (oracle.empty() || !matches_any(patterns, oracle)) continue;
      section.error(key, fmt::format("'{}' names the oracle {}: the workspace must never hold it",
                                     key, in_quotes(oracle)));
    }
  }
}

// On a GPU the oracle is CUDA; one in C++ may check that one at small shapes.
void read_oracles(Section& section, Draft& draft) {
  Files& files = draft.task.files;
  const bool gpu = is_gpu_task(draft.task);
  if (gpu) files.oracle = "oracle.cu";
  read_path(section, "oracle", files.oracle, draft.problems);
  read_path(section, "cpu_oracle", files.cpu_oracle, draft.problems);
  if (gpu && !files.oracle.ends_with(".cu")) {
    section.error("oracle", fmt::format("the oracle of a GPU task is CUDA: write oracle = "
                                        "\"oracle.cu\", and cpu_oracle = {} if that is in C++",
                                        in_quotes(files.oracle)));
  }
  if (!section.find("cpu_oracle")) return;
  if (!gpu) {
    section.error("cpu_oracle",
                  "'cpu_oracle' belongs to tasks in \"cuda\" or \"triton\"; remove it");
  } else if (language_of_source(files.cpu_oracle) != Language::cpp) {
    section.error("cpu_oracle", fmt::format("{} is not C++: it is compiled by g++, as oracle.cc",
                                            in_quotes(files.cpu_oracle)));
  }
}

// A list of words, none of them empty.
void read_words(Section& section, std::string_view key, std::vector<std::string>& out,
                Problems& problems) {
  if (!section.read(key, out, most_words)) return;
  for (size_t i = 0; i < out.size(); ++i) {
    if (out[i].empty())
      problems.error(item_at(section, key, i),
                     fmt::format("'{}' in {} has an empty entry; remove it", key, section.name()));
    else if (out[i].size() > 1000 || has_control(out[i]))
      problems.error(
          item_at(section, key, i),
          fmt::format("{} in '{}' is longer than 1000 bytes or holds a control character",
                      in_quotes(out[i]), key));
  }
}

int bracket_depth(const std::string& pattern) {
  int depth = 0, deepest = 0;
  for (const char c : pattern) {
    if (c == '(' || c == '[') deepest = std::max(deepest, ++depth);
    if (c == ')' || c == ']') --depth;
  }
  return deepest;
}

void read_metric(Section& section, Draft& draft) {
  CommandSpec& command = draft.task.command;
  const TomlValue* table = section.table("metric");
  if (!table) return;
  Section metric(*table, table->at, "'metric' in [command]", draft.problems);
  const bool has_regex = metric.read("regex", command.metric_regex);
  const bool has_json = metric.read("json", command.metric_json);
  metric.finish();
  if (has_regex == has_json) {
    section.error("metric",
                  "'metric' needs exactly one of regex and json: { regex = 'total: (\\d+)' } or { "
                  "json = \"/bytes\" }");
  }
  if (has_regex) {
    const Result<int64_t> groups = check_regex(command.metric_regex);
    if (!groups)
      metric.error("regex", groups.error().what);
    else if (*groups != 1)
      metric.error(
          "regex",
          fmt::format("the regular expression has {} groups; put exactly one ( ) round the figure",
                      *groups));
  }
  if (has_json &&
      (!command.metric_json.starts_with('/') || has_control(command.metric_json) ||
       std::regex_search(command.metric_json.substr(0, 1000), std::regex("~(?![01])")))) {
    metric.error("json",
                 fmt::format("{} is not a JSON pointer; write \"/bytes\" or \"/results/0/size\"",
                             in_quotes(command.metric_json)));
  }
}

}  // namespace

Result<int64_t> check_regex(const std::string& pattern) {
  if (pattern.empty())
    return fail(Fault::invalid, "the regular expression is empty; it would match everywhere");
  if (pattern.size() > 1000)
    return fail(Fault::invalid, "the regular expression is longer than 1000 bytes; split it");
  if (bracket_depth(pattern) > 30)
    return fail(Fault::invalid,
                "the regular expression is nested deeper than 30 brackets; split it");
  try {
    const std::regex compiled(pattern, std::regex::ECMAScript);
    return static_cast<int64_t>(compiled.mark_count());
  } catch (const std::regex_error& error) {
    return fail(Fault::invalid, fmt::format("{} is not a regular expression (ECMAScript): {}",
                                            in_quotes(pattern), error.what()));
  }
}

bool patterns_overlap(std::string_view a, std::string_view b) {
  // can[j]: the rest of `a` read so far from its end and the last j bytes of `b` can match one
  // name.
  if (a.find('*') == std::string_view::npos && b.find('*') == std::string_view::npos) return a == b;
  std::vector<char> below(b.size() + 1), here(b.size() + 1);
  for (size_t i = a.size() + 1; i-- > 0;) {
    for (size_t j = b.size() + 1; j-- > 0;) {
      const bool a_ends = i == a.size(), b_ends = j == b.size();
      const bool a_star = !a_ends && a[i] == '*', b_star = !b_ends && b[j] == '*';
      bool can = a_ends && b_ends;
      if (a_star) can = below[j] || (!b_ends && b[j] != '/' && here[j + 1]);
      if (b_star) can = can || here[j + 1] || (!a_ends && a[i] != '/' && below[j]);
      if (!a_star && !b_star && !a_ends && !b_ends) can = a[i] == b[j] && below[j + 1];
      here[j] = can;
    }
    std::swap(below, here);
  }
  return below[0];
}

void read_files(Section& root, Draft& draft) {
  root.require("files", "add [files] with editable = [\"solution.cc\"]");
  const TomlValue* table = root.table("files");
  if (!table) return;
  Section section(*table, table->at, "[files]", draft.problems);
  Files& files = draft.task.files;
  const bool kernel = draft.task.kind == TaskKind::kernel;
  read_path(section, "start", files.start, draft.problems);
  section.require("editable", "name the files that a candidate may change");
  read_paths(section, "editable", true, files.editable, draft.problems);
  if (section.find("editable") && files.editable.empty()) {
    section.error("editable", "no file is editable; nothing could ever be improved");
  }
  read_paths(section, "frozen", true, files.frozen, draft.problems);
  if (kernel) {
    read_oracles(section, draft);
  } else {
    for (const std::string_view key : {"oracle", "cpu_oracle"}) {
      if (!section.find(key)) continue;
      section.error(key,
                    "a command task has no oracle; 'check' in [command] decides what is right");
    }
  }
  read_path(section, "baseline", files.baseline, draft.problems);
  section.read("baseline_visible", files.baseline_visible);
  check_overlaps(section, draft);
  section.finish();
}

void read_build(Section& root, Draft& draft) {
  root.require("build", "add [build] with sources = [\"solution.cc\"]");
  const TomlValue* table = root.table("build");
  if (!table) return;
  Section section(*table, table->at, "[build]", draft.problems);
  Build& build = draft.task.build;
  section.require("sources", "name the files that are compiled");
  read_paths(section, "sources", false, build.sources, draft.problems);
  if (section.find("sources") && build.sources.empty())
    section.error("sources", "no source is named; nothing can be built");
  const Files& files = draft.task.files;
  for (const std::string& source : build.sources) {
    if (matches_any(files.editable, source) || matches_any(files.frozen, source)) continue;
    section.error("sources",
                  fmt::format("the source {} is neither editable nor frozen; name it in [files]",
                              in_quotes(source)));
  }
  read_words(section, "flags", build.flags, draft.problems);
  if (is_gpu_task(draft.task)) check_gpu_build(section, draft);
  section.read("timeout_s", build.timeout_s, {0, day_s, true});
  int64_t megabytes = build.max_memory_bytes >> 20;
  if (section.read("max_memory_mb", megabytes, 64, 1 << 20))
    build.max_memory_bytes = megabytes << 20;
  section.finish();
}

void read_rules(Section& root, Draft& draft) {
  const TomlValue* table = root.table("rules");
  if (!table) return;
  Section section(*table, table->at, "[rules]", draft.problems);
  Rules& rules = draft.task.rules;
  section.read("threads", rules.threads, 1, 1024);
  if (section.read("forbidden_text", rules.forbidden_text, 100)) {
    for (size_t i = 0; i < rules.forbidden_text.size(); ++i) {
      const Result<int64_t> groups = check_regex(rules.forbidden_text[i]);
      if (!groups) draft.problems.error(item_at(section, "forbidden_text", i), groups.error().what);
    }
  }
  read_words(section, "allowed_libraries", rules.allowed_libraries, draft.problems);
  for (size_t i = 0; i < rules.allowed_libraries.size(); ++i) {
    if (rules.allowed_libraries[i].find('/') == std::string::npos) continue;
    draft.problems.error(
        item_at(section, "allowed_libraries", i),
        fmt::format("{} is a path; write the library's name as DT_NEEDED has it: \"libfoo.so.1\"",
                    in_quotes(rules.allowed_libraries[i])));
  }
  section.read("max_source_bytes", rules.max_source_bytes, 1, 1LL << 30);
  section.finish();
}

void read_measure(Section& root, Draft& draft) {
  const TomlValue* table = root.table("measure");
  if (!table) return;
  Section section(*table, table->at, "[measure]", draft.problems);
  MeasurePlan& measure = draft.task.measure;
  read_choice(section, "cache", cache_states, measure.cache, draft.problems);
  section.read("restarts", measure.restarts, 1, 100);
  section.read("rounds", measure.rounds, 1, 1000);
  section.read("buffer_sets", measure.buffer_sets, 1, 1024);
  section.read("timeout_s", measure.timeout_s, {0, day_s, true});
  section.finish();
}

void read_budget(Section& root, Draft& draft) {
  const TomlValue* table = root.table("budget");
  if (!table) return;
  Section section(*table, table->at, "[budget]", draft.problems);
  Budget& budget = draft.task.budget;
  section.read("evaluations", budget.evaluations, 0, 1'000'000'000);
  section.read("tool_calls", budget.tool_calls, 0, 1'000'000'000);
  section.read("hours", budget.hours, {0, 1e5});
  section.read("usd", budget.usd, {0, 1e7});
  section.read("tokens", budget.tokens, 0, 1'000'000'000'000);
  section.finish();
}

void read_profile(Section& root, Draft& draft) {
  const TomlValue* table = root.table("profile");
  if (!table) return;
  Section section(*table, table->at, "[profile]", draft.problems);
  Profile& profile = draft.task.profile;
  section.read("on_new_best", profile.on_new_best);
  if (section.read("shape", profile.shape)) {
    std::vector<std::string> listed;
    for (const Shape& shape : draft.task.shapes) {
      if (shape.set == ShapeSet::listed) listed.push_back(shape.name);
    }
    if (std::ranges::find(listed, profile.shape) == listed.end()) {
      section.error("shape", fmt::format("no listed shape is named {}{}", in_quotes(profile.shape),
                                         suggestion(profile.shape, listed)));
    }
  }
  section.finish();
}

void read_command(Section& root, Draft& draft) {
  root.require("command", "add [command] with measure = [\"./measure.sh\"] and a metric");
  const TomlValue* table = root.table("command");
  if (!table) return;
  Section section(*table, table->at, "[command]", draft.problems);
  CommandSpec& command = draft.task.command;
  read_words(section, "build", command.build, draft.problems);
  read_words(section, "check", command.check, draft.problems);
  section.require("measure", "name the program that prints the metric and its arguments");
  read_words(section, "measure", command.measure, draft.problems);
  if (section.find("measure") && section.find("measure")->type == TomlValue::Type::array &&
      section.find("measure")->items.empty()) {
    section.error("measure",
                  "'measure' in [command] is empty; name the program that prints the metric");
  }
  section.read("timeout_s", command.timeout_s, {0, day_s, true});
  section.require("metric", "write metric = { regex = 'total: (\\d+)' } or { json = \"/bytes\" }");
  read_metric(section, draft);
  section.read("unit", command.unit);
  read_choice(section, "direction", directions, command.direction, draft.problems);
  section.read("repeats", command.repeats, 1, 1000);
  section.read("min_gain", command.min_gain, {0, 1});
  section.read("interleave", command.interleave);
  section.finish();
}

}  // namespace marathon
