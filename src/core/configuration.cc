// Configurations: which are valid, their text form in params.toml, what they add to the build.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "core/task.h"
#include "core/task_section.h"

namespace marathon {

namespace {

const Parameter* find_parameter(const Task& task, std::string_view name) {
  const std::vector<Parameter>::const_iterator at =
      std::ranges::find(task.parameters, name, &Parameter::name);
  return at == task.parameters.end() ? nullptr : &*at;
}

bool has_value(const Parameter& parameter, int64_t value) {
  return std::ranges::find(parameter.values, value) != parameter.values.end();
}

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

tl::unexpected<Error> fail_line(int64_t line, const std::string& what) {
  return fail(Fault::invalid, fmt::format("{} line {}: {}", params_file, line, what));
}

std::vector<std::string> names_of(const std::vector<Parameter>& parameters) {
  std::vector<std::string> names;
  names.reserve(parameters.size());
  for (const Parameter& parameter : parameters) names.push_back(parameter.name);
  return names;
}

std::string values_text(const Parameter& parameter) {
  std::string text;
  for (const int64_t value : parameter.values) {
    if (text.size() > 200) return text + " …";
    text += (text.empty() ? "" : " ") + std::to_string(value);
  }
  return text;
}

// One line that is neither empty nor a comment.
Status parse_line(const Task& task, std::string_view text, int64_t line, Configuration& result) {
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos) {
    return fail_line(line, fmt::format("expected NAME = integer, but found {}", in_quotes(text)));
  }
  const std::string name(trimmed(text.substr(0, equals)));
  const std::string_view number = trimmed(text.substr(equals + 1));
  const Parameter* parameter = find_parameter(task, name);
  if (!parameter) {
    return fail_line(line, fmt::format("unknown parameter {}{}", in_quotes(name),
                                       suggestion(name, names_of(task.parameters))));
  }
  int64_t value = 0;
  const char* end = number.data() + number.size();
  const std::from_chars_result read = std::from_chars(number.data(), end, value);
  if (read.ec != std::errc() || read.ptr != end) {
    return fail_line(line,
                     fmt::format("{} needs a whole number, but found {}", name, in_quotes(number)));
  }
  if (!has_value(*parameter, value)) {
    return fail_line(line, fmt::format("{} = {} is not one of its values: {}", name, value,
                                       values_text(*parameter)));
  }
  if (!result.emplace(name, value).second) {
    return fail_line(line, fmt::format("{} stands here a second time; remove one", name));
  }
  return {};
}

}  // namespace

bool is_valid(const Task& task, const Configuration& configuration) {
  if (configuration.size() != task.parameters.size()) return false;
  for (const Parameter& parameter : task.parameters) {
    const Configuration::const_iterator at = configuration.find(parameter.name);
    if (at == configuration.end() || !has_value(parameter, at->second)) return false;
  }
  // In their order, so that "A != 0" can stand before "B % A == 0".
  for (const Expression& constraint : task.constraints) {
    std::vector<int64_t> values;
    for (const std::string& name : constraint.names()) {
      const Configuration::const_iterator at = configuration.find(name);
      if (at == configuration.end()) return false;
      values.push_back(at->second);
    }
    if (constraint.evaluate(values).value_or(0) == 0) return false;
  }
  return true;
}

Configuration start_configuration(const Task& task) {
  Configuration configuration;
  for (const Parameter& parameter : task.parameters)
    configuration[parameter.name] = parameter.start;
  return configuration;
}

std::string to_params_toml(const Task& task, const Configuration& configuration) {
  std::string text;
  for (const Parameter& parameter : task.parameters) {
    const Configuration::const_iterator at = configuration.find(parameter.name);
    const int64_t value = at == configuration.end() ? parameter.start : at->second;
    text += fmt::format("{} = {}\n", parameter.name, value);
  }
  return text;
}

Result<Configuration> parse_params_toml(const Task& task, std::string_view text) {
  Configuration result;
  int64_t line = 0;
  while (!text.empty()) {
    ++line;
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view whole = text.substr(0, end);
    const std::string_view bare = trimmed(whole.substr(0, whole.find('#')));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!bare.empty()) TRY(parse_line(task, bare, line, result));
  }
  std::string missing;
  for (const Parameter& parameter : task.parameters) {
    if (result.contains(parameter.name)) continue;
    missing +=
        fmt::format("{}{} = {}", missing.empty() ? "" : ", ", parameter.name, parameter.start);
  }
  if (!missing.empty()) {
    return fail_line(std::max<int64_t>(line, 1),
                     fmt::format("the file ends, but parameters are missing; add {}", missing));
  }
  return result;
}

std::string to_params_module(const Task& task, const Configuration& configuration) {
  return to_params_toml(task, configuration);  // NAME = 8 means the same in both
}

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  std::string_view rest = trimmed(text);
  while (!rest.empty()) {
    const size_t end = std::min(rest.find_first_of(" \t"), rest.size());
    words.emplace_back(rest.substr(0, end));
    rest = trimmed(rest.substr(end));
  }
  return words;
}

std::vector<std::string> build_words(const Task& task, const Configuration& configuration) {
  std::vector<std::string> words;
  for (const Parameter& parameter : task.parameters) {
    const Configuration::const_iterator at = configuration.find(parameter.name);
    const int64_t value = at == configuration.end() ? parameter.start : at->second;
    if (parameter.kind == Parameter::Kind::define) {
      words.push_back(fmt::format("-D{}={}", parameter.name, value));
      continue;
    }
    if (value < 0 || value >= static_cast<int64_t>(parameter.flags.size())) continue;
    for (std::string& word : words_of(parameter.flags[static_cast<size_t>(value)]))
      words.push_back(std::move(word));
  }
  return words;
}

}  // namespace marathon
