#include "run/tools.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/hash.h"

namespace marathon {

namespace fs = std::filesystem;

namespace {

constexpr size_t max_result_bytes = 8000;
constexpr int64_t max_file_bytes = 512 * 1024;

ToolResult refuse(std::string why) { return {false, std::move(why), {}}; }

bool is_editable(const Task& task, const std::string& path) {
  return is_safe_relative(path) &&
         std::any_of(task.files.editable.begin(), task.files.editable.end(),
                     [&](const std::string& pattern) {
                       return ::fnmatch(pattern.c_str(), path.c_str(), FNM_PATHNAME) == 0;
                     });
}

std::string editable_list(const Task& task) {
  std::string list;
  for (const std::string& pattern : task.files.editable)
    list += (list.empty() ? "" : ", ") + pattern;
  return list;
}

class Tools {
 public:
  Tools(Driver& driver, const Json& arguments, std::stop_token stop)
      : driver_(driver), arguments_(arguments), stop_(std::move(stop)) {}

  Result<ToolResult> evaluate(const std::string& by) {
    const std::string hypothesis = json_string(arguments_, "hypothesis"),
                      category = json_string(arguments_, "category");
    if (hypothesis.empty() || category.empty())
      return refuse(
          "evaluate needs \"hypothesis\" (what should get better and why) and \"category\"");
    ToolResult result;
    FileHashes files = driver_.state().workspace;
    if (arguments_.contains("configuration")) {
      const Result<std::string> params = params_from(arguments_.at("configuration"));
      if (!params) return refuse(params.error().what);
      const std::string hash = TRY(driver_.recorder().keep(*params));
      files[std::string(params_file)] = result.written[std::string(params_file)] = hash;
    }
    Submission submission = TRY(driver_.submission_of(files));
    submission.hypothesis = hypothesis;
    submission.category = category;
    submission.by = by;
    const auto known = driver_.state().attempt_of.find(submission.candidate);
    const bool judged_before =
        known != driver_.state().attempt_of.end() &&
        driver_.state().attempts[static_cast<size_t>(known->second)].verdict.has_value();
    const int64_t number = TRY(driver_.judge(submission, stop_));
    result.text = answer_about(
        driver_.state(), driver_.state().attempts[static_cast<size_t>(number - 1)], judged_before);
    return result;
  }

  Result<ToolResult> list_files() {
    std::string text = "editable:\n";
    for (const auto& [path, hash] : driver_.state().workspace) text += "  " + path + "\n";
    text += "frozen (read with read_file):\n";
    for (const fs::path& file : TRY(frozen_files(driver_.loaded_task())))
      text += "  " + file.string() + "\n";
    if (driver_.task().files.baseline_visible) {
      const Result<std::vector<fs::path>> files =
          marathon::list_files(driver_.loaded_task().folder / driver_.task().files.baseline);
      if (files) {
        for (const fs::path& file : *files) text += "  baseline/" + file.string() + "\n";
      }
    }
    return ToolResult{true, text, {}};
  }

  Result<ToolResult> read_file() {
    const std::string path = json_string(arguments_, "path");
    const Result<std::string> content = content_of(path);
    if (!content) return refuse(content.error().what);
    const size_t offset = static_cast<size_t>(std::clamp<int64_t>(
        json_int(arguments_, "offset"), 0, static_cast<int64_t>(content->size())));
    const std::string part = content->substr(offset, max_result_bytes);
    const size_t left = content->size() - offset - part.size();
    return ToolResult{true,
                      left == 0
                          ? part
                          : part + fmt::format("\n… {} bytes more; read on with \"offset\": {}",
                                               left, offset + part.size()),
                      {}};
  }

  Result<ToolResult> write_file() {
    const std::string path = json_string(arguments_, "path"),
                      content = json_string(arguments_, "content");
    if (!arguments_.contains("content")) return refuse("write_file needs \"path\" and \"content\"");
    return put(path, content);
  }

  Result<ToolResult> edit_file() {
    const std::string path = json_string(arguments_, "path"),
                      before = json_string(arguments_, "old"),
                      after = json_string(arguments_, "new");
    if (before.empty() || !arguments_.contains("new"))
      return refuse(
          "edit_file needs \"path\", \"old\" (text to replace, exactly as it stands) and \"new\"");
    const Result<std::string> content = content_of(path);
    if (!content) return refuse(content.error().what);
    const size_t at = content->find(before);
    if (at == std::string::npos)
      return refuse("\"old\" does not stand in " + path +
                    "; read the file and copy the text exactly");
    if (content->find(before, at + 1) != std::string::npos)
      return refuse("\"old\" stands in " + path + " more than once; give more lines around it");
    return put(path, content->substr(0, at) + after + content->substr(at + before.size()));
  }

  Result<ToolResult> best() {
    if (!driver_.state().incumbent) return refuse("no candidate has passed yet");
    ToolResult result;
    const FileHashes files = TRY(files_of(
        driver_.workspace().folder().parent_path(),
        driver_.state().attempts[static_cast<size_t>(driver_.state().incumbent->attempt - 1)]));
    for (const auto& [path, hash] : driver_.state().workspace) {
      if (!files.contains(path)) result.written[path] = "";
    }
    for (const auto& [path, hash] : files) result.written[path] = hash;
    result.text = fmt::format("the workspace holds the best candidate again (attempt #{})",
                              driver_.state().incumbent->attempt);
    return result;
  }

  Result<ToolResult> note() {
    const std::string text = json_string(arguments_, "text");
    if (text.empty()) return refuse("note needs \"text\"");
    // Redone after a crash it must not stand there twice.
    const std::vector<std::string>& notes = driver_.state().notes;
    if (std::find(notes.begin(), notes.end(), text) == notes.end())
      TRY(driver_.recorder().record(NoteAdded{text.substr(0, 2000), "agent"}));
    return ToolResult{true, "noted", {}};
  }

  Result<ToolResult> history() {
    const std::string category = json_string(arguments_, "category"),
                      verdict = json_string(arguments_, "verdict");
    std::string text;
    for (auto at = driver_.state().attempts.rbegin();
         at != driver_.state().attempts.rend() && text.size() < max_result_bytes; ++at) {
      const std::string kind = at->verdict ? std::string(to_string(*at->verdict)) : "not judged";
      if ((!category.empty() && at->category != category) || (!verdict.empty() && kind != verdict))
        continue;
      text += fmt::format("#{} {} {:.3f}× [{}] {} {}\n", at->number, kind, at->speedup.value,
                          at->category, at->hypothesis, at->reason);
    }
    return ToolResult{true, text.empty() ? "no such attempt" : text, {}};
  }

  Result<ToolResult> finish() {
    const Progress progress = progress_of(driver_.state());
    if (progress.goal_met || driver_.state().target.speedup <= 0)
      return ToolResult{true, "noted; the run ends when its stop rule says so", {}};
    return refuse(
        fmt::format("the evidence does not show the goal: it is {:.2f}×, the best's lower bound is "
                    "{:.2f}×. Budget is left: go on",
                    driver_.state().target.speedup, progress.low));
  }

 private:
  Result<std::string> params_from(const Json& configuration) const {
    if (!configuration.is_object())
      return fail(Fault::invalid, "\"configuration\" is an object: {\"NAME\": value}");
    Configuration values = start_configuration(driver_.task());
    for (const auto& [name, value] : configuration.items()) {
      if (!value.is_number_integer() || !values.contains(name))
        return fail(Fault::invalid,
                    "'" + name + "' is no parameter of the task, or its value is no whole number");
      values[name] = value.get<int64_t>();
    }
    if (!is_valid(driver_.task(), values))
      return fail(Fault::invalid, "the configuration breaks a constraint of the task");
    return to_params_toml(driver_.task(), values);
  }

  // Workspace first, then frozen files, then baseline/… where the task shows it. Nothing else
  // exists.
  Result<std::string> content_of(const std::string& path) const {
    const auto own = driver_.state().workspace.find(path);
    if (own != driver_.state().workspace.end())
      return driver_.recorder().artifacts().get(own->second);
    const fs::path& folder = driver_.loaded_task().folder;
    for (const fs::path& frozen : TRY(frozen_files(driver_.loaded_task()))) {
      if (frozen == fs::path(path)) return marathon::read_file(folder / frozen, max_file_bytes);
    }
    const bool baseline = path.starts_with("baseline/") && driver_.task().files.baseline_visible &&
                          is_safe_relative(path);
    if (baseline)
      return marathon::read_file(folder / driver_.task().files.baseline / path.substr(9),
                                 max_file_bytes);
    return fail(Fault::not_found,
                "there is no file '" + path + "'; list_files shows what there is");
  }

  Result<ToolResult> put(const std::string& path, const std::string& content) {
    if (!is_editable(driver_.task(), path))
      return refuse("'" + path +
                    "' may not be written; editable: " + editable_list(driver_.task()));
    if (static_cast<int64_t>(content.size()) > max_file_bytes)
      return refuse(
          fmt::format("too large: {} bytes, {} are allowed", content.size(), max_file_bytes));
    ToolResult result;
    result.written[path] = TRY(driver_.recorder().keep(content));
    result.text = fmt::format("{} written, {} bytes", path, content.size());
    return result;
  }

  Driver& driver_;
  const Json& arguments_;
  std::stop_token stop_;
};

constexpr std::string_view tool_names =
    "evaluate, list_files, read_file, write_file, edit_file, best, note, history, finish";

}  // namespace

Result<ToolResult> run_tool(Driver& driver, const ToolCall& call, std::stop_token stop) {
  std::string text = call.arguments.empty() ? "{}" : call.arguments;
  // Long arguments are kept beside the log (loop.cc) and named by their hash.
  if (text.starts_with("artifact:")) text = TRY(driver.recorder().artifacts().get(text.substr(9)));
  const Result<Json> arguments = parse_json(text);
  if (!arguments || !arguments->is_object()) {
    return refuse(fmt::format("the arguments of {} are not a JSON object: {}", call.name,
                              arguments ? "another type" : arguments.error().what));
  }
  Tools tools(driver, *arguments, std::move(stop));
  if (call.name == "evaluate")
    return tools.evaluate(driver.state().start ? driver.state().start->agent : "agent");
  if (call.name == "list_files") return tools.list_files();
  if (call.name == "read_file") return tools.read_file();
  if (call.name == "write_file") return tools.write_file();
  if (call.name == "edit_file") return tools.edit_file();
  if (call.name == "best") return tools.best();
  if (call.name == "note") return tools.note();
  if (call.name == "history") return tools.history();
  if (call.name == "finish") return tools.finish();
  return refuse(fmt::format("there is no tool '{}'; there are {}", call.name, tool_names));
}

}  // namespace marathon
