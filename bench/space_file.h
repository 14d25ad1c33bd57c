// A measured space on disk: docs/performance/space-*.json.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "judge/judge.h"
#include "search_score.h"

namespace marathon {

struct SpaceFile {
  std::string task, task_hash, cpu, date;
  std::vector<std::string> parts;  // "CHUNK=16,32": the part of the space that was measured
  std::vector<MeasuredPoint> points;

  bool has(const Configuration& configuration) const;
};

// An absent file gives an empty space of this task. task_hash says which version was measured.
Result<SpaceFile> read_space_file(const std::filesystem::path& path, const LoadedTask& task);
Status write_space_file(const std::filesystem::path& path, const SpaceFile& space);

// The task with each named parameter narrowed to the values given. Error invalid for unknown ones.
Result<Task> part_of(const Task& task, const std::vector<std::string>& parts);

// Every valid configuration, in a fixed order.
std::vector<Configuration> all_configurations(const Task& task);

}  // namespace marathon
