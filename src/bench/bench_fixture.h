// A small real task for tests: sources compiled by g++ into a folder that is removed at the end.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "base/file.h"
#include "bench/request.h"
#include "core/task.h"

namespace marathon {

// y_t = s_t x_t + y_(t-1) / 2 over rows of [T, C], and the last row once more. Enough to forget
// something in, to overrun, and to get wrong in one place.
using Texts = std::map<std::string, std::string>;

class ToyTask {
 public:
  // `replace`: texts of task.toml to exchange before it is written.
  explicit ToyTask(const Texts& replace = {});

  const Task& task() const { return task_; }
  std::filesystem::path folder() const { return folder_->path(); }
  // A library from a whole source; compiled once a text.
  std::filesystem::path library(const std::string& source) const;
  // A library whose marathon_run has this body; T, C, s, x, y, last, w (workspace) are at hand.
  std::filesystem::path candidate(const std::string& body, const std::string& before = "") const;
  std::filesystem::path honest() const;
  BenchRequest request(const std::filesystem::path& candidate) const;

 private:
  std::unique_ptr<TempFolder> folder_;
  Task task_;
};

// The honest body, repeated `times` times: as slow as wanted.
std::string honest_body(int times = 1);

}  // namespace marathon
