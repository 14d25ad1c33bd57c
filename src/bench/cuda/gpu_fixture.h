// A small task for a GPU and marathon-judge on the fake CUDA driver (tests/fakes): host code
// compiled by g++ that launches the fake's kernels, whose times are numbers in a text.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "base/file.h"
#include "base/json.h"
#include "base/process.h"
#include "core/verdict.h"

namespace marathon {

// y = 2 x and c = x over [R, C]; c is checked at eight secret rows.
class GpuToy {
 public:
  GpuToy();
  std::filesystem::path folder() const { return folder_.path(); }
  // Exchanges texts of task.toml.
  void change_task(const std::map<std::string, std::string>& replace) const;
  // A library whose marathon_run has this body. R, C, x, y, c, stream and launch("name", …) are at
  // hand; `before` stands at its head. Compiled once a text.
  std::filesystem::path candidate(const std::string& body, const std::string& before = "") const;
  // Scales in so many microseconds (100, 200, 400 or 800) and copies in ten: long enough
  // that the real time of a fake kernel is nothing beside it.
  std::filesystem::path honest(int us) const;
  static std::string honest_body(int us);

  // The baseline takes 400 + 10 µs. Keys are changed by the caller.
  Json request(const std::filesystem::path& candidate) const;
  ProcessResult run_judge(const Json& request, const std::string& faults = "") const;
  // What it left, or null when it failed.
  Json answer(const Json& request, const std::string& faults = "") const;
  Verdict judged(const Json& request, const std::string& faults = "") const;

 private:
  std::filesystem::path compile(const std::string& source, const std::string& flag) const;
  TempFolder folder_;
};

}  // namespace marathon
