// Tools on files. The truth is the fold (path → hash) with its artifacts, not the folder on disk: a
// call that is done again after a crash starts from the same content.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "run/payloads.h"
#include "run/tools.h"

namespace marathon {

namespace fs = std::filesystem;

namespace {

constexpr int64_t max_read_bytes = 64LL << 20;
constexpr size_t max_page_bytes = 9'000;  // as JSON
constexpr std::string_view baseline_prefix = "baseline/";

bool touches_git(const fs::path& path) {
  return std::ranges::any_of(
      path, [](const fs::path& part) { return part.native().starts_with(".git"); });
}

bool may_be_written(const Task& task, const std::string& path) {
  return is_safe_relative(path) && !touches_git(path) && is_editable(task, path);
}

// Never shown, whatever the patterns of frozen say: hidden shapes and the oracle.
bool is_secret(const Task& task, const fs::path& file) {
  return file == "task.toml" || (task.kind == TaskKind::kernel && file == task.files.oracle);
}

struct Readable {
  std::string path;  // as the agent names it
  fs::path file;
};

Status add_folder(const fs::path& folder, const std::string& prefix, std::vector<Readable>& files) {
  std::error_code none;
  if (!fs::is_directory(folder, none)) return {};
  for (const fs::path& file : TRY(list_files(folder)))
    files.push_back({prefix + file.generic_string(), folder / file});
  return {};
}

// What an agent may read and not write: frozen files, the baseline where the task shows it, and for
// commands what else lies in the starting folder, for they run there.
Result<std::vector<Readable>> readable_files(const Driver& driver) {
  const LoadedTask& loaded = driver.loaded_task();
  const Task& task = loaded.task;
  std::vector<Readable> files;
  for (const fs::path& file : TRY(frozen_files(loaded))) {
    if (!is_secret(task, file)) files.push_back({file.generic_string(), loaded.folder / file});
  }
  if (task.files.baseline_visible)
    TRY(add_folder(loaded.folder / task.files.baseline, std::string(baseline_prefix), files));
  if (task.kind == TaskKind::command) TRY(add_folder(loaded.folder / task.files.start, "", files));
  std::erase_if(files, [&](const Readable& file) { return may_be_written(task, file.path); });
  return files;
}

// Error invalid or not_found: to be told to the agent.
Result<std::string> content_of(const Driver& driver, const std::string& path) {
  const auto own = driver.state().workspace.find(path);
  if (own != driver.state().workspace.end()) return driver.artifacts().get(own->second);
  for (const Readable& file : TRY(readable_files(driver))) {
    if (file.path == path) return read_file(file.file, max_read_bytes);
  }
  return fail(Fault::not_found, fmt::format("there is no file \"{}\" that you may read; list_files "
                                            "shows what there is",
                                            path));
}

bool is_for_the_agent(const Error& error) {
  return error.fault == Fault::invalid || error.fault == Fault::not_found;
}

std::string list_of(const std::vector<std::string>& texts) {
  return fmt::format("{}", fmt::join(texts, ", "));
}

Result<ToolResult> put(Driver& driver, const std::string& path, const std::string& content) {
  const Task& task = driver.task();
  if (!may_be_written(task, path))
    return refuse(
        fmt::format("\"{}\" may not be written; editable: {}", path, list_of(task.files.editable)));
  if (static_cast<int64_t>(content.size()) > task.rules.max_source_bytes)
    return refuse(fmt::format("{} bytes are too much: the task allows {} a file", content.size(),
                              task.rules.max_source_bytes));
  ToolResult result;
  result.written[path] = TRY(driver.recorder().keep(content));
  result.text = fmt::format("{}: {} bytes written", path, content.size());
  return result;
}

std::vector<int64_t> lines_with(const std::string& content, const std::string& text) {
  std::vector<int64_t> lines;
  int64_t line = 1;
  size_t counted = 0;
  for (size_t at = content.find(text); at != std::string::npos; at = content.find(text, at + 1)) {
    line += std::count(content.begin() + static_cast<std::ptrdiff_t>(counted),
                       content.begin() + static_cast<std::ptrdiff_t>(at), '\n');
    counted = at;
    lines.push_back(line);
    if (lines.size() == 10) break;
  }
  return lines;
}

// Whole lines from `first` on, as many as fit; the number of the line behind them, 0 at the end.
std::string page_of(std::string_view content, int64_t first, int64_t& next) {
  std::string page;
  size_t bytes = 0;
  int64_t line = 1;
  while (!content.empty()) {
    const size_t end = std::min(content.find('\n'), content.size() - 1) + 1;
    const std::string_view text = content.substr(0, end);
    content.remove_prefix(end);
    if (line++ < first) continue;
    const std::string shown = cut_for_json(text, max_page_bytes);
    const size_t size = dump_json(Json(shown)).size();
    if (bytes + size > max_page_bytes && !page.empty()) {
      next = line - 1;
      return page;
    }
    page += shown;
    bytes += size;
  }
  next = 0;
  return page;
}

}  // namespace

Result<ToolResult> list_files_tool(Driver& driver) {
  std::string text = "editable:\n";
  for (const auto& [path, hash] : driver.state().workspace) text += "  " + path + "\n";
  text += fmt::format("(patterns: {})\nread only:\n", list_of(driver.task().files.editable));
  for (const Readable& file : TRY(readable_files(driver))) text += "  " + file.path + "\n";
  return ToolResult{true, std::move(text), {}};
}

Result<ToolResult> read_file_tool(Driver& driver, const Json& arguments) {
  Result<std::string> content = content_of(driver, json_string(arguments, "path"));
  if (!content && is_for_the_agent(content.error())) return refuse(content.error().what);
  const std::string text = TRY(std::move(content));
  int64_t next = 0;
  std::string page = page_of(text, json_int(arguments, "from_line", 1), next);
  if (page.empty())
    return refuse(text.empty() ? "the file is empty" : "the file ends before that line");
  if (next > 0) page += fmt::format("\n… the file goes on: read_file with \"from_line\": {}", next);
  return ToolResult{true, std::move(page), {}};
}

Result<ToolResult> write_file_tool(Driver& driver, const Json& arguments) {
  return put(driver, json_string(arguments, "path"), json_string(arguments, "content"));
}

Result<ToolResult> edit_file_tool(Driver& driver, const Json& arguments) {
  const std::string path = json_string(arguments, "path"), before = json_string(arguments, "old"),
                    after = json_string(arguments, "new");
  if (before.empty()) return refuse("\"old\" is empty; to write a whole file use write_file");
  if (before == after) return refuse("\"old\" and \"new\" are the same: nothing would change");
  Result<std::string> read = content_of(driver, path);
  if (!read && is_for_the_agent(read.error())) return refuse(read.error().what);
  const std::string content = TRY(std::move(read));
  const std::vector<int64_t> lines = lines_with(content, before);
  if (lines.empty())
    return refuse(
        fmt::format("\"old\" does not stand in {}; read the file and copy the text exactly, "
                    "with its spaces",
                    path));
  if (lines.size() > 1)
    return refuse(
        fmt::format("\"old\" stands in {} at lines {}: give more of the text around the one "
                    "that you mean",
                    path, fmt::join(lines, ", ")));
  const size_t at = content.find(before);
  return put(driver, path, content.substr(0, at) + after + content.substr(at + before.size()));
}

}  // namespace marathon
