// Parameters of the search and the constraints between them.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/random.h"
#include "core/task_draft.h"

namespace marathon {

namespace {

constexpr size_t most_parameters = 64;
constexpr size_t most_values = 1000;
constexpr size_t most_constraints = 100;
constexpr int64_t enumerated_at_most = 1'000'000;
constexpr int64_t steps_at_most = 30'000'000;  // of all expressions together: about 0.2 s
constexpr int64_t sampled = 20'000;

// -DNAME=value for one of these would change what the source itself means.
const std::set<std::string_view> reserved = {
    "alignas",   "alignof",  "asm",      "auto",     "bool",     "break",    "case",    "catch",
    "char",      "class",    "const",    "continue", "default",  "delete",   "do",      "double",
    "else",      "enum",     "explicit", "extern",   "false",    "float",    "for",     "friend",
    "goto",      "if",       "inline",   "int",      "int64_t",  "long",     "main",    "mutable",
    "namespace", "new",      "noexcept", "nullptr",  "operator", "private",  "public",  "real",
    "register",  "return",   "short",    "signed",   "sizeof",   "static",   "std",     "struct",
    "switch",    "template", "this",     "throw",    "true",     "try",      "typedef", "typename",
    "union",     "unsigned", "using",    "virtual",  "void",     "volatile", "while"};

void read_values(Section& section, Parameter& parameter, Draft& draft) {
  std::vector<int64_t> values;
  if (!section.read("values", values, most_values)) return;
  if (values.empty()) section.error("values", "'values' is empty; give one or more");
  std::set<int64_t> seen;
  for (size_t i = 0; i < values.size(); ++i) {
    const Position at = section.find("values")->items[i].at;
    if (!seen.insert(values[i]).second) {
      draft.problems.error(at, fmt::format("the value {} stands twice; remove one", values[i]));
      continue;
    }
    parameter.values.push_back(values[i]);
    draft.value_at.back().push_back(at);
  }
}

void read_flags(Section& section, Parameter& parameter, Draft& draft) {
  parameter.kind = Parameter::Kind::flag;
  std::vector<std::string> flags;
  if (!section.read("flags", flags, most_values)) return;
  if (flags.empty()) section.error("flags", "'flags' is empty; give one or more, \"\" for none");
  std::set<std::string> seen;
  for (size_t i = 0; i < flags.size(); ++i) {
    const Position at = section.find("flags")->items[i].at;
    const bool strange = std::ranges::any_of(
        flags[i], [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
    if (strange || flags[i].size() > 1000) {
      draft.problems.error(at, "a flag text is at most 1000 bytes without control characters");
    }
    if (!seen.insert(flags[i]).second) {
      draft.problems.error(at, fmt::format("{} stands twice; remove one", in_quotes(flags[i])));
    }
    if (is_gpu_task(draft.task)) {
      for (const std::string& word : words_of(flags[i])) {
        if (refuse_nvcc_flag(word, at, draft.problems)) break;
      }
    }
    parameter.values.push_back(static_cast<int64_t>(i));
    draft.value_at.back().push_back(at);
  }
  parameter.flags = std::move(flags);
  if (speaks(draft.task, Language::triton)) {
    section.error("flags",
                  "a Triton module is not compiled: 'flags' would do nothing there; write "
                  "'values', which it imports from marathon_params");
  }
}

void read_start(Section& section, Parameter& parameter) {
  section.require("start", "say which value the starting solution has");
  if (!section.read("start", parameter.start, INT64_MIN, INT64_MAX) || parameter.values.empty()) {
    return;
  }
  if (std::ranges::find(parameter.values, parameter.start) != parameter.values.end()) return;
  const bool flag = parameter.kind == Parameter::Kind::flag;
  section.error("start",
                flag ? fmt::format("start {} is not the index of a flag; it must be between "
                                   "0 and {}",
                                   parameter.start, parameter.values.size() - 1)
                     : fmt::format("start {} is not one of the values of {}; add it to them "
                                   "or choose another start",
                                   parameter.start, in_quotes(parameter.name)));
}

void check_name(Section& section, Parameter& parameter, Draft& draft) {
  section.require("name", "write name = \"CHUNK\"");
  if (!section.read("name", parameter.name)) return;
  std::vector<std::string> used;
  for (const Parameter& other : draft.task.parameters) used.push_back(other.name);
  const Position at = section.at("name");
  section.rename("[[parameter]] " + in_quotes(parameter.name));
  if (!check_identifier("parameter", parameter.name, used, at, draft.problems)) return;
  const bool taken = reserved.contains(parameter.name) || parameter.name.starts_with("__") ||
                     parameter.name.starts_with("MARATHON");
  if (!taken) return;
  draft.problems.error(at, fmt::format("{} cannot be a parameter: -D{}=… would change what the "
                                       "compiler or marathon_kernel.h means by it; choose a name "
                                       "in capitals",
                                       in_quotes(parameter.name), parameter.name));
}

void read_parameter(const TomlValue& table, Draft& draft) {
  Section section(table, table.at, "[[parameter]]", draft.problems);
  Parameter parameter;
  draft.value_at.emplace_back();
  check_name(section, parameter, draft);
  const bool define = section.find("values") != nullptr, flag = section.find("flags") != nullptr;
  if (define == flag) {
    draft.problems.error(section.at(), section.name() +
                                           " needs either 'values' (whole numbers, a macro) or "
                                           "'flags' (words for the compiler)");
  }
  if (define) {
    read_values(section, parameter, draft);
  } else if (flag) {
    read_flags(section, parameter, draft);
  }
  read_start(section, parameter);
  parameter.category = "other";
  section.read("category", parameter.category);
  section.read("help", parameter.help);
  section.finish();
  draft.task.parameters.push_back(std::move(parameter));
}

void read_constraints(Section& root, Draft& draft) {
  const TomlValue* table = root.table("search");
  if (!table) return;
  Section section(*table, table->at, "[search]", draft.problems);
  const TomlValue* list = section.array("constraints");
  section.finish();
  if (!list) return;
  if (list->items.size() > most_constraints) {
    section.error("constraints", fmt::format("{} constraints; at most {} are allowed",
                                             list->items.size(), most_constraints));
    return;
  }
  std::vector<std::string> names;
  for (const Parameter& parameter : draft.task.parameters) names.push_back(parameter.name);
  for (const TomlValue& item : list->items) {
    std::optional<Expression> constraint =
        read_expression(item, "parameter", names, draft.problems);
    if (!constraint) continue;
    if (constraint->names().empty()) {
      draft.problems.error(item.at, fmt::format("the constraint {} names no parameter: it holds "
                                                "always or never; remove it",
                                                in_quotes(constraint->text())));
      continue;
    }
    draft.task.constraints.push_back(*std::move(constraint));
    draft.constraint_at.push_back(item.at);
  }
}

// Walks the configurations of the parameters that stand in a constraint: all of them when that is
// affordable, else a fixed random sample.
class ConstraintCheck {
 public:
  explicit ConstraintCheck(Draft& draft) : draft_(draft), task_(draft.task) {
    indices_.assign(task_.parameters.size(), 0);
    reported_.assign(task_.constraints.size(), false);
    for (size_t i = 0; i < task_.parameters.size(); ++i) {
      used_.emplace_back(task_.parameters[i].values.size(), false);
    }
    for (const Expression& constraint : task_.constraints) resolve_names(constraint);
  }

  void run() {
    const bool start_is_valid = check_start();
    const bool all = count_ <= enumerated_at_most && count_ * cost_ <= steps_at_most;
    const bool some_valid = all ? enumerate() : sample();
    if (!some_valid && !start_is_valid) {
      draft_.problems.error(
          draft_.constraint_at.front(),
          all ? fmt::format("no configuration meets all constraints ({} were tried); loosen one",
                            count_)
              : fmt::format("none of {} random configurations meets all constraints; loosen one",
                            tried_));
    } else if (all && start_is_valid && !std::ranges::count(reported_, true)) {
      warn_of_dead_values();
    }
  }

 private:
  void resolve_names(const Expression& constraint) {
    std::vector<size_t> places;
    for (const std::string& name : constraint.names()) {
      const std::vector<Parameter>::const_iterator at =
          std::ranges::find(task_.parameters, name, &Parameter::name);
      places.push_back(static_cast<size_t>(at - task_.parameters.begin()));
    }
    cost_ += constraint.cost() + 2 * static_cast<int64_t>(places.size()) + 4;
    for (const size_t place : places) {
      if (std::ranges::find(relevant_, place) != relevant_.end()) continue;
      relevant_.push_back(place);
      const int64_t size = static_cast<int64_t>(task_.parameters[place].values.size());
      count_ = std::min<int64_t>(count_ * size, enumerated_at_most + 1);
    }
    names_.push_back(std::move(places));
  }

  bool check_start() {
    for (const size_t place : relevant_) {
      const Parameter& parameter = task_.parameters[place];
      indices_[place] = static_cast<size_t>(std::ranges::find(parameter.values, parameter.start) -
                                            parameter.values.begin());
    }
    for (size_t i = 0; i < names_.size(); ++i) {
      if (holds(i)) continue;
      if (reported_[i]) return false;  // it could not be evaluated: told already
      draft_.problems.error(draft_.constraint_at[i],
                            fmt::format("the start configuration ({}) does not meet {}; change a "
                                        "start or the constraint",
                                        values_text(i), in_quotes(task_.constraints[i].text())));
      return false;
    }
    return true;
  }

  bool enumerate() {
    bool some_valid = false;
    for (const size_t place : relevant_) indices_[place] = 0;
    while (true) {
      if (all_hold()) {
        some_valid = true;
        for (const size_t place : relevant_) used_[place][indices_[place]] = true;
      }
      size_t digit = 0;
      for (; digit < relevant_.size(); ++digit) {
        size_t& index = indices_[relevant_[digit]];
        if (++index < task_.parameters[relevant_[digit]].values.size()) break;
        index = 0;
      }
      if (digit == relevant_.size()) return some_valid;
    }
  }

  bool sample() {
    Random random(1, "constraints");
    bool some_valid = false;
    tried_ = std::max<int64_t>(100, std::min<int64_t>(sampled, steps_at_most / cost_));
    for (int64_t i = 0; i < tried_; ++i) {
      for (const size_t place : relevant_) {
        indices_[place] = random.below(task_.parameters[place].values.size());
      }
      some_valid = all_hold() || some_valid;
    }
    return some_valid;
  }

  bool all_hold() {
    for (size_t i = 0; i < names_.size(); ++i) {
      if (!holds(i)) return false;
    }
    return true;
  }

  bool holds(size_t constraint) {
    values_.clear();
    for (const size_t place : names_[constraint]) {
      values_.push_back(task_.parameters[place].values[indices_[place]]);
    }
    const std::optional<int64_t> value = task_.constraints[constraint].evaluate(values_);
    if (!value) report(constraint);
    return value.value_or(0) != 0;
  }

  void report(size_t constraint) {
    if (reported_[constraint]) return;
    reported_[constraint] = true;
    draft_.problems.error(
        draft_.constraint_at[constraint],
        fmt::format("{} divides by zero or overflows for {}; guard it: 'A != 0 && …', or put a "
                    "constraint that rules this out before it",
                    in_quotes(task_.constraints[constraint].text()), values_text(constraint)));
  }

  std::string values_text(size_t constraint) const {
    std::string text;
    for (const size_t place : names_[constraint]) {
      const Parameter& parameter = task_.parameters[place];
      text += fmt::format("{}{} = {}", text.empty() ? "" : ", ", parameter.name,
                          parameter.values[indices_[place]]);
    }
    return text;
  }

  void warn_of_dead_values() {
    for (const size_t place : relevant_) {
      for (size_t i = 0; i < used_[place].size(); ++i) {
        if (used_[place][i]) continue;
        draft_.problems.warning(
            draft_.value_at[place][i],
            fmt::format("no valid configuration has {} = {}; the constraints rule it out",
                        task_.parameters[place].name, task_.parameters[place].values[i]));
      }
    }
  }

  Draft& draft_;
  const Task& task_;
  std::vector<size_t> relevant_;            // parameters that stand in a constraint
  std::vector<std::vector<size_t>> names_;  // of each constraint, as places of parameters
  std::vector<size_t> indices_;             // the configuration looked at, by parameter
  std::vector<std::vector<bool>> used_;     // values met in a valid configuration
  std::vector<bool> reported_;
  std::vector<int64_t> values_;
  int64_t count_ = 1, cost_ = 0, tried_ = 0;
};

}  // namespace

bool check_identifier(std::string_view what, const std::string& name,
                      const std::vector<std::string>& used, Position at, Problems& problems) {
  std::string why;
  if (!is_identifier(name) || name.size() > 40) {
    why = "must be letters, digits and '_', start with no digit and have at most 40 characters";
  } else if (Expression::is_function(name)) {
    why = "is a function of expressions; choose another name";
  } else if (std::ranges::find(used, name) != used.end()) {
    why = "stands twice; rename one";
  }
  if (why.empty()) return true;
  problems.error(at, fmt::format("the {} name {} {}", what, in_quotes(name), why));
  return false;
}

void read_parameters(Section& root, Draft& draft) {
  const int64_t errors = draft.problems.errors();
  for (const TomlValue* table : root.tables("parameter", most_parameters)) {
    read_parameter(*table, draft);
  }
  read_constraints(root, draft);
  const Files& files = draft.task.files;
  const bool in_workspace = std::ranges::any_of(files.editable, [](const std::string& pattern) {
    return patterns_overlap(pattern, params_file);
  });
  if (!draft.task.parameters.empty() && !in_workspace && root.find("files")) {
    root.error("parameter",
               "parameters stand in params.toml of the workspace; add \"params.toml\" "
               "to 'editable' in [files]");
  }
  // Only a sound space is worth walking: with errors in it, what it says would mislead.
  const bool sound = draft.problems.errors() == errors;
  if (sound && !draft.task.constraints.empty()) ConstraintCheck(draft).run();
}

}  // namespace marathon
