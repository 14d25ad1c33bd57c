#include "run/tools.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "run/payloads.h"

namespace marathon {

namespace {

constexpr size_t max_note_bytes = 4000;

// An argument is required unless its name ends with '?'. Types: s text, i whole number, o object.
struct Argument {
  std::string_view name;
  char type;
  bool required = true;
};
struct ToolSpec {
  std::string_view name;
  std::vector<Argument> arguments;
};

const std::vector<ToolSpec>& tool_specs() {
  static const std::vector<ToolSpec> specs = {
      {"evaluate", {{"hypothesis", 's'}, {"category", 's'}, {"configuration", 'o', false}}},
      {"list_files", {}},
      {"read_file", {{"path", 's'}, {"from_line", 'i', false}}},
      {"write_file", {{"path", 's'}, {"content", 's'}}},
      {"edit_file", {{"path", 's'}, {"old", 's'}, {"new", 's'}}},
      {"note", {{"text", 's'}}},
      {"history", {{"category", 's', false}, {"verdict", 's', false}}},
      {"best", {}},
      {"finish", {{"text", 's'}}},
  };
  return specs;
}

std::string_view type_name(char type) {
  return type == 's' ? "text" : type == 'i' ? "a whole number" : "an object";
}

bool has_type(const Json& value, char type) {
  return type == 's'   ? value.is_string()
         : type == 'i' ? value.is_number_integer()
                       : value.is_object();
}

std::string usage(const ToolSpec& spec) {
  std::string text = std::string(spec.name) + " {";
  for (const Argument& argument : spec.arguments) {
    text += fmt::format("{}\"{}\": {}{}", text.back() == '{' ? "" : ", ", argument.name,
                        type_name(argument.type), argument.required ? "" : " (optional)");
  }
  return text + "}";
}

// What is wrong with the arguments, or empty.
std::string wrong_with(const ToolSpec& spec, const Json& arguments) {
  for (const Argument& argument : spec.arguments) {
    const Json::const_iterator at = arguments.find(std::string(argument.name));
    if (at == arguments.end() && !argument.required) continue;
    if (at == arguments.end()) return fmt::format("\"{}\" is missing", argument.name);
    if (!has_type(*at, argument.type))
      return fmt::format("\"{}\" must be {}", argument.name, type_name(argument.type));
  }
  for (Json::const_iterator at = arguments.begin(); at != arguments.end(); ++at) {
    if (std::ranges::find(spec.arguments, at.key(), &Argument::name) == spec.arguments.end())
      return fmt::format("there is no argument \"{}\"", at.key());
  }
  return "";
}

// The configuration of the workspace, or the task's starting one where that cannot be read.
Configuration current_configuration(const Driver& driver) {
  const auto params = driver.state().workspace.find(std::string(params_file));
  if (params != driver.state().workspace.end()) {
    const Result<std::string> text = driver.artifacts().get(params->second);
    const Result<Configuration> now =
        text ? parse_params_toml(driver.task(), *text) : Result<Configuration>(Configuration());
    if (now && !now->empty()) return *now;
  }
  return start_configuration(driver.task());
}

// Error invalid: to be told to the agent.
Result<std::string> params_text(const Driver& driver, const Json& wanted) {
  const Task& task = driver.task();
  if (task.parameters.empty())
    return fail(Fault::invalid, "this task has no parameters: leave \"configuration\" out");
  Configuration configuration = current_configuration(driver);
  for (const auto& [name, value] : wanted.items()) {
    if (!configuration.contains(name))
      return fail(Fault::invalid, fmt::format("the task has no parameter \"{}\"", name));
    if (!value.is_number_integer())
      return fail(Fault::invalid, fmt::format("{} needs a whole number", name));
    configuration[name] = value.get<int64_t>();
  }
  const std::string text = to_params_toml(task, configuration);
  TRY(parse_params_toml(task, text));  // says which value is not among the declared ones
  if (is_valid(task, configuration)) return text;
  std::string constraints;
  for (const Expression& constraint : task.constraints) constraints += "\n  " + constraint.text();
  return fail(Fault::invalid,
              "this configuration breaks a constraint; all of these must hold:" + constraints);
}

// params.toml of the workspace would break the rules: told before it costs an evaluation.
Status check_params(const Driver& driver, const FileHashes& files) {
  if (driver.task().parameters.empty()) return {};
  const auto params = files.find(std::string(params_file));
  if (params == files.end())
    return fail(Fault::invalid, "params.toml is missing: give \"configuration\"");
  const Configuration configuration =
      TRY(parse_params_toml(driver.task(), TRY(driver.artifacts().get(params->second))));
  if (is_valid(driver.task(), configuration)) return {};
  return fail(Fault::invalid, "the values in params.toml break a constraint of the task");
}

// Any event of this kind behind the start of the open call: it was on record when the process
// ended.
Result<bool> is_on_record(const Driver& driver, std::string_view kind) {
  const Reader reader = TRY(Reader::open(driver.folder()));
  bool found = false;
  TRY(reader.each(driver.state().tool_open->sequence, [&](const Event& event) {
    found = found || event.payload_type == kind;
    return !found;
  }));
  return found;
}

Result<ToolResult> evaluate(Driver& driver, const Json& arguments) {
  ToolResult result;
  FileHashes files = driver.state().workspace;
  if (arguments.contains("configuration")) {
    Result<std::string> params = params_text(driver, arguments.at("configuration"));
    if (!params && params.error().fault == Fault::invalid) return refuse(params.error().what);
    const std::string hash = TRY(driver.recorder().keep(TRY(std::move(params))));
    files[std::string(params_file)] = result.written[std::string(params_file)] = hash;
  }
  if (const Status params = check_params(driver, files); !params) {
    if (params.error().fault == Fault::invalid) return refuse(params.error().what);
    return tl::unexpected(params.error());
  }
  Submission submission = TRY(driver.submission_of(std::move(files)));
  submission.hypothesis = json_string(arguments, "hypothesis");
  submission.category = json_string(arguments, "category");
  submission.by = driver.state().start->agent;
  if (submission.hypothesis.empty() || submission.category.empty())
    return refuse("say in \"hypothesis\" what should get better and why, and name a \"category\"");
  const Judged judged = TRY(driver.judge(submission, driver.state().tool_open->sequence));
  const Attempt& attempt = driver.state().attempts[static_cast<size_t>(judged.attempt - 1)];
  result.text =
      evaluation_answer(driver, attempt, TRY(driver.verdict_of(attempt)), judged.from_log);
  return result;
}

Result<ToolResult> note(Driver& driver, const Json& arguments, bool again) {
  const std::string text = cut_for_json(json_string(arguments, "text"), max_note_bytes);
  if (text.empty()) return refuse("the note is empty");
  if (!again || !TRY(is_on_record(driver, "note.added")))
    TRY(driver.recorder().record(NoteAdded{text, driver.state().start->agent}));
  return ToolResult{true, "noted", {}};
}

Result<ToolResult> best(Driver& driver) {
  const Attempt* best = incumbent_of(driver.state());
  if (!best) return refuse("no candidate has passed yet: there is no best one");
  ToolResult result;
  const FileHashes files = TRY(driver.files_of(*best));
  const FileHashes& now = driver.state().workspace;
  for (const auto& [path, hash] : now) {
    if (!files.contains(path)) result.written[path] = "";
  }
  for (const auto& [path, hash] : files) {
    const auto own = now.find(path);
    if (own == now.end() || own->second != hash) result.written[path] = hash;
  }
  result.text = fmt::format("the workspace holds the best candidate, attempt #{}; {} files changed",
                            best->number, result.written.size());
  return result;
}

// A claim. The fold lets it end the agent's part only when it is answered with ok (core/state.cc).
ToolResult finish(const Driver& driver) {
  const State& state = driver.state();
  const Progress progress = progress_of(state);
  if (progress.goal_met) return {true, "the evidence shows that the goal is met; the run ends", {}};
  const std::string left =
      state.budget.evaluations > 0
          ? fmt::format("{} of {} evaluations are left",
                        std::max<int64_t>(state.budget.evaluations - state.spent.evaluations, 0),
                        state.budget.evaluations)
          : "budget is left";
  if (state.target.speedup <= 0)
    return refuse("the goal has no figure that could be met; " + left + ": go on");
  return refuse(fmt::format(
      "the evidence does not show the goal: it asks for {:.2f}×, and {}. {}: go on",
      state.target.speedup,
      state.incumbent ? fmt::format("the best has {:.2f}× with a lower bound of {:.2f}×",
                                    progress.speedup, progress.low)
                      : std::string("no candidate has passed"),
      left));
}

Result<ToolResult> dispatch(Driver& driver, const ToolSpec& spec, const Json& arguments,
                            bool again) {
  if (spec.name == "evaluate") return evaluate(driver, arguments);
  if (spec.name == "list_files") return list_files_tool(driver);
  if (spec.name == "read_file") return read_file_tool(driver, arguments);
  if (spec.name == "write_file") return write_file_tool(driver, arguments);
  if (spec.name == "edit_file") return edit_file_tool(driver, arguments);
  if (spec.name == "note") return note(driver, arguments, again);
  if (spec.name == "history")
    return ToolResult{true,
                      history_answer(driver, json_string(arguments, "category"),
                                     json_string(arguments, "verdict")),
                      {}};
  if (spec.name == "best") return best(driver);
  return finish(driver);
}

}  // namespace

ToolResult refuse(std::string why) { return {false, std::move(why), {}}; }

Result<ToolResult> run_tool(Driver& driver, const ToolCall& call, bool again) {
  const auto spec = std::ranges::find(tool_specs(), call.name, &ToolSpec::name);
  if (spec == tool_specs().end()) {
    std::string all;
    for (const ToolSpec& each : tool_specs()) all += "\n  " + usage(each);
    return refuse(fmt::format("there is no tool \"{}\"; there are:{}", call.name, all));
  }
  const Result<std::string> text = arguments_of(call, driver.artifacts());
  if (!text && text.error().fault == Fault::corrupt) return tl::unexpected(text.error());
  const Result<Json> arguments =
      text ? parse_json(*text) : Result<Json>(tl::unexpected(text.error()));
  if (!arguments)
    return refuse(fmt::format("the arguments cannot be read: {}; use {}", arguments.error().what,
                              usage(*spec)));
  if (!arguments->is_object())
    return refuse(fmt::format("the arguments must be one JSON object: {}", usage(*spec)));
  if (const std::string wrong = wrong_with(*spec, *arguments); !wrong.empty())
    return refuse(fmt::format("{}; use {}", wrong, usage(*spec)));
  return dispatch(driver, *spec, *arguments, again);
}

}  // namespace marathon
