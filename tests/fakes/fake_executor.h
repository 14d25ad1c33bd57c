// An executor that judges by reading: the verdict is a function of the candidate's content, so that
// a run can be compared with itself after a crash. No compiler, no clock.
//
// The first word of solution.cc that it knows decides: `wrong`, `crash`, `unbuildable`,
// `ambiguous`, `suspicious`, `unconfirmed`; `speed N` sets the speed, which params.toml (NAME =
// value) multiplies.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/hash.h"
#include "judge/judge.h"

namespace marathon {

class FakeExecutor : public Executor {
 public:
  std::vector<EvaluationRequest> requests;
  int64_t long_text_bytes = 0;     // of build output and reasons
  int64_t samples = 0;             // a shape and implementation
  std::string cpu = "a fake CPU";  // its model, in the provenance
  std::string gpu;                 // the same of the GPU; empty: none
  bool at_floor = false;           // every candidate is within 10 % of the floor
  // Called first; an error of it is the answer.
  std::function<Status(const EvaluationRequest&, std::stop_token)> before;
  std::function<bool(const EvaluationRequest&)> disturb;  // true: the verdict is ambiguous

  Result<Verdict> evaluate(const EvaluationRequest& request, const StageSink& stage,
                           std::stop_token stop) override {
    requests.push_back(request);
    if (before) TRY(before(request, stop));
    const std::string source = text_of(request.candidate_folder / "solution.cc");
    TRY(stage("build", "read", 0));
    if (!request.result_folder.empty() && long_text_bytes > 0)
      TRY(write_file(request.result_folder / "build.txt", long_text()));
    if (!request.result_folder.empty() && has(source, "sanitized"))
      TRY(write_file(request.result_folder / "sanitize.txt", "what a sanitizer said"));
    Verdict verdict = decide(request, disturb && disturb(request) ? "ambiguous" : source);
    decorate(verdict);
    verdict.provenance.cpu = cpu;
    if (!gpu.empty()) verdict.provenance.gpu.emplace().name = gpu;
    verdict.provenance.effort = request.effort == Effort::quick ? "quick" : "full";
    return verdict;
  }

  static double speed_of(const std::filesystem::path& folder) {
    std::istringstream words(text_of(folder / "solution.cc"));
    double speed = 1;
    for (std::string word; words >> word;) {
      if (word == "speed") words >> speed;
    }
    return speed * factor_of(text_of(folder / "params.toml"));
  }

 private:
  static std::string text_of(const std::filesystem::path& file) {
    const Result<std::string> text = read_file(file);
    return text ? *text : std::string();
  }

  // Smooth in each value with one interaction, so that a search has something to find.
  static double factor_of(const std::string& params) {
    std::istringstream lines(params);
    double factor = 1, last = 1;
    for (std::string name, equals; lines >> name >> equals;) {
      double value = 0;
      lines >> value;
      factor *= 1 + 0.2 * std::sin(value + static_cast<double>(name.size() + name[0])) +
                0.05 * std::cos(value * last);
      last = value;
    }
    return factor;
  }

  static bool has(const std::string& source, const char* word) {
    return source.find(word) != std::string::npos;
  }

  Verdict decide(const EvaluationRequest& request, const std::string& source) const {
    Verdict verdict;
    verdict.reasons = {"judged by reading"};
    if (has(source, "unbuildable"))
      verdict.kind = VerdictKind::build_failed;
    else if (has(source, "crash"))
      verdict.kind = VerdictKind::crashed;
    else if (has(source, "wrong"))
      verdict.kind = VerdictKind::wrong;
    else if (has(source, "ambiguous"))
      verdict.kind = VerdictKind::ambiguous;
    else if (has(source, "suspicious"))
      verdict.kind = VerdictKind::suspicious;
    else
      measure(request, !has(source, "unconfirmed"), verdict);
    if (verdict.kind == VerdictKind::wrong) {
      verdict.reasons = {"secret-77: output y is off in rows 64–127"};
      ShapeResult hidden;
      hidden.name = "secret-77";
      hidden.set = "hidden";
      hidden.verdict = VerdictKind::wrong;
      hidden.reason = "output y is off in rows 64–127";
      verdict.shapes.push_back(hidden);
    }
    return verdict;
  }

  void measure(const EvaluationRequest& request, bool confirm, Verdict& verdict) const {
    const double speed = speed_of(request.candidate_folder);
    const double before_speed =
        request.incumbent_folder.empty() ? 1 : speed_of(request.incumbent_folder);
    const double gain = speed / before_speed;
    verdict.speedup = {speed, speed * 0.99, speed * 1.01};
    verdict.gain = {gain, gain * 0.99, gain * 1.01};
    verdict.kind = gain > 1.02   ? VerdictKind::faster
                   : gain < 0.98 ? VerdictKind::slower
                                 : VerdictKind::same;
    verdict.confirmed = confirm && verdict.kind == VerdictKind::faster;
    ShapeResult shape;
    shape.name = "big";
    shape.set = "listed";
    shape.verdict = verdict.kind;
    shape.time_us = 100 / speed;
    shape.baseline_us = 100;
    shape.floor_us = at_floor ? shape.time_us * 0.95 : 1;
    shape.speedup = verdict.speedup;
    shape.bound_by = "memory";
    const size_t count = static_cast<size_t>(samples);
    shape.samples = {std::vector<double>(count, 100.5), std::vector<double>(count, 101.5),
                     std::vector<double>(count, 102.5)};
    verdict.shapes.push_back(shape);
  }

  std::string long_text() const { return std::string(static_cast<size_t>(long_text_bytes), 'x'); }

  void decorate(Verdict& verdict) const {
    if (long_text_bytes == 0) return;
    verdict.build_output = long_text().substr(0, 64 * 1024);
    verdict.reasons.push_back(long_text().substr(0, 64 * 1024));
  }
};

}  // namespace marathon
