#include "space_file.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"

namespace marathon {

bool SpaceFile::has(const Configuration& configuration) const {
  return std::any_of(points.begin(), points.end(), [&](const MeasuredPoint& point) {
    return point.configuration == configuration;
  });
}

Result<SpaceFile> read_space_file(const std::filesystem::path& path, const LoadedTask& task) {
  SpaceFile space{task.task.name, task.hash, "", format_utc(wall_time_us()), {}, {}};
  if (!std::filesystem::exists(path)) return space;
  const Json json = TRY(parse_json(TRY(read_file(path))));
  space.task_hash = json_string(json, "task_hash");
  space.cpu = json_string(json, "cpu");
  space.date = json_string(json, "date");
  for (const Json& part : json.at("parts")) space.parts.push_back(part.get<std::string>());
  for (const Json& point : json.at("points")) {
    MeasuredPoint measured;
    measured.configuration = point.at("configuration").get<Configuration>();
    measured.speedup = json_double(point, "speedup");
    measured.failed = json_bool(point, "failed");
    space.points.push_back(std::move(measured));
  }
  return space;
}

Status write_space_file(const std::filesystem::path& path, const SpaceFile& space) {
  std::string text = "{\n";
  const auto field = [&](const char* name, const Json& value) {
    text += "\"" + std::string(name) + "\": " + dump_json(value) + ",\n";
  };
  field("task", space.task);
  field("task_hash", space.task_hash);
  field("cpu", space.cpu);
  field("date", space.date);
  field("parts", space.parts);
  text += "\"points\": [\n";
  for (size_t i = 0; i < space.points.size(); ++i) {
    const MeasuredPoint& point = space.points[i];
    const Json json = {{"configuration", point.configuration},
                       {"speedup", std::round(point.speedup * 1e4) / 1e4},
                       {"failed", point.failed}};
    text += dump_json(json) + (i + 1 < space.points.size() ? ",\n" : "\n");
  }
  return write_file_durable(path, text + "]}\n");
}

namespace {

Result<std::vector<int64_t>> numbers_of(std::string_view list) {
  std::vector<int64_t> numbers;
  while (!list.empty()) {
    const std::string_view word = list.substr(0, list.find(','));
    int64_t number = 0;
    const std::from_chars_result read =
        std::from_chars(word.data(), word.data() + word.size(), number);
    if (read.ec != std::errc() || read.ptr != word.data() + word.size()) {
      return fail(Fault::invalid, "'" + std::string(word) + "' is not a whole number");
    }
    numbers.push_back(number);
    list.remove_prefix(std::min(list.size(), word.size() + 1));
  }
  return numbers;
}

}  // namespace

Result<Task> part_of(const Task& task, const std::vector<std::string>& parts) {
  Task part = task;
  for (const std::string& text : parts) {
    const std::string name = text.substr(0, text.find('='));
    const auto found =
        std::find_if(part.parameters.begin(), part.parameters.end(),
                     [&](const Parameter& parameter) { return parameter.name == name; });
    if (found == part.parameters.end() || name.size() + 1 >= text.size()) {
      return fail(Fault::invalid,
                  "'" + text + "': want NAME=value,value with a parameter of the task");
    }
    found->values = TRY(numbers_of(std::string_view(text).substr(name.size() + 1)));
    if (std::find(found->values.begin(), found->values.end(), found->start) ==
        found->values.end()) {
      found->start = found->values.front();
    }
  }
  return part;
}

std::vector<Configuration> all_configurations(const Task& task) {
  std::vector<Configuration> all = {{}};
  for (const Parameter& parameter : task.parameters) {
    std::vector<Configuration> wider;
    for (const Configuration& configuration : all) {
      for (const int64_t value : parameter.values) {
        wider.push_back(configuration);
        wider.back()[parameter.name] = value;
      }
    }
    all = std::move(wider);
  }
  std::erase_if(all,
                [&](const Configuration& configuration) { return !is_valid(task, configuration); });
  return all;
}

}  // namespace marathon
