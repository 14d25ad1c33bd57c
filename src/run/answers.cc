// What an agent is told of verdicts and of the ledger.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <nlohmann/json.hpp>

#include "run/payloads.h"
#include "run/tools.h"

namespace marathon {

namespace {

constexpr size_t max_shapes = 16, max_reasons = 6, max_lines = 60;
constexpr size_t max_text_bytes = 500, max_build_output_bytes = 2500;

// Four digits: more are noise, and cost a reader.
Json figure(double value) { return Json(std::stod(fmt::format("{:.4g}", value))); }

Json interval(const Interval& v) {
  return {{"value", figure(v.value)}, {"low", figure(v.low)}, {"high", figure(v.high)}};
}

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-'; }

bool names(const std::string& text, const std::string& word) {
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    const bool begins = at == 0 || !is_word(text[at - 1]);
    const size_t end = at + word.size();
    if (begins && (end == text.size() || !is_word(text[end]))) return true;
  }
  return false;
}

// A sentence about a hidden shape would tell its inputs: only what happened is left of it.
std::string without_secrets(const Task& task, std::string_view verdict, const std::string& text) {
  for (const Shape& shape : task.shapes) {
    if (shape.set == ShapeSet::hidden && names(text, shape.name))
      return fmt::format("{} on a hidden shape", verdict);
  }
  return cut_for_json(text, max_text_bytes);
}

Json shape_json(const Task& task, const ShapeResult& shape) {
  Json json = {{"name", shape.name}, {"verdict", to_string(shape.verdict)}};
  if (!shape.reason.empty())
    json["reason"] = without_secrets(task, to_string(shape.verdict), shape.reason);
  if (shape.time_us <= 0) return json;
  json["time_us"] = figure(shape.time_us);
  json["baseline_us"] = figure(shape.baseline_us);
  json["speedup"] = figure(shape.speedup.value);
  if (shape.floor_us > 0) json["share_of_floor"] = figure(shape.floor_us / shape.time_us);
  if (!shape.bound_by.empty()) json["bound_by"] = shape.bound_by;
  return json;
}

// The failing ones first. A hidden one has no figures and no name, so that only its failure counts.
Json shapes_json(const Task& task, const Verdict& verdict) {
  Json failing = Json::array(), passing = Json::array();
  for (const ShapeResult& shape : verdict.shapes) {
    if (shape.set == "hidden") continue;
    (shape.reason.empty() ? passing : failing).push_back(shape_json(task, shape));
  }
  for (Json& shape : passing) failing.push_back(std::move(shape));
  while (failing.size() > max_shapes) failing.erase(failing.size() - 1);
  return failing;
}

Json standing(const State& state) {
  Json json = Json::object();
  if (state.incumbent) {
    json["best"] = {{"attempt", state.incumbent->attempt},
                    {"speedup", figure(state.incumbent->speedup.value)},
                    {"low", figure(state.incumbent->speedup.low)}};
  }
  if (state.target.speedup > 0) {
    json["goal"] = {{"speedup", figure(state.target.speedup)},
                    {"met", progress_of(state).goal_met}};
  }
  if (state.budget.evaluations > 0)
    json["evaluations_left"] =
        std::max<int64_t>(state.budget.evaluations - state.spent.evaluations, 0);
  return json;
}

std::string ledger_line(const Task& task, const Attempt& attempt) {
  const std::string verdict =
      attempt.verdict ? std::string(to_string(*attempt.verdict)) : "not judged";
  std::string line =
      fmt::format("#{}{} {}", attempt.number, attempt.became_incumbent ? " (a best)" : "", verdict);
  if (attempt.verdict && is_measured(*attempt.verdict))
    line += fmt::format(" {:.3f}× ({:.3f}–{:.3f})", attempt.speedup.value, attempt.speedup.low,
                        attempt.speedup.high);
  line += fmt::format(" [{}] {}", attempt.category, attempt.hypothesis);
  if (!attempt.reason.empty()) line += " — " + without_secrets(task, verdict, attempt.reason);
  return cut_for_json(line, max_text_bytes);
}

std::string counts_by_category(const State& state) {
  struct Count {
    int64_t tried = 0, best = 0;
    double speedup = 0;
  };
  std::map<std::string, Count> counts;
  for (const Attempt& attempt : state.attempts) {
    Count& count = counts[attempt.category];
    ++count.tried;
    count.best += attempt.became_incumbent ? 1 : 0;
    count.speedup = std::max(count.speedup, attempt.speedup.value);
  }
  std::string text;
  for (const auto& [category, count] : counts) {
    if (text.size() > 2000) return text + "…\n";
    text += fmt::format("{}: {} tried, {} became the best, {:.3f}× at most\n", category,
                        count.tried, count.best, count.speedup);
  }
  return text;
}

}  // namespace

std::string evaluation_answer(const Driver& driver, const Attempt& attempt, const Verdict& verdict,
                              bool from_log) {
  const Task& task = driver.task();
  Json json = standing(driver.state());
  json["attempt"] = attempt.number;
  json["verdict"] = to_string(verdict.kind);
  json["new_best"] = !from_log && attempt.became_incumbent;
  if (is_measured(verdict.kind)) {
    json["speedup"] = interval(verdict.speedup);
    json["gain_over_best"] = interval(verdict.gain);
  }
  json["reasons"] = Json::array();
  for (const std::string& reason : verdict.reasons) {
    if (json["reasons"].size() < max_reasons)
      json["reasons"].push_back(without_secrets(task, to_string(verdict.kind), reason));
  }
  json["shapes"] = shapes_json(task, verdict);
  if (verdict.profile) json["profile"] = verdict.profile->sentences;
  if (verdict.kind == VerdictKind::build_failed)
    json["build_output"] = cut_for_json(verdict.build_output, max_build_output_bytes);
  if (from_log) {
    json["note"] = fmt::format(
        "these very files were judged before, as attempt #{}: this is that verdict, and no "
        "evaluation was spent",
        attempt.number);
  }
  // In the order in which an agent can do without them.
  for (const char* part : {"", "build_output", "profile", "shapes"}) {
    json.erase(part);
    if (dump_json(Json(dump_json(json))).size() <= max_tool_result_bytes) break;
  }
  return dump_json(json);
}

std::string history_answer(const Driver& driver, const std::string& category,
                           const std::string& verdict) {
  const State& state = driver.state();
  std::string lines;
  size_t count = 0, left_out = 0;
  for (auto at = state.attempts.rbegin(); at != state.attempts.rend(); ++at) {
    const std::string kind = at->verdict ? std::string(to_string(*at->verdict)) : "not judged";
    if (!category.empty() && at->category != category) continue;
    if (!verdict.empty() && kind != verdict) continue;
    const std::string line = ledger_line(driver.task(), *at) + "\n";
    if (++count > max_lines || lines.size() + line.size() > max_tool_result_bytes / 2) {
      ++left_out;
    } else {
      lines += line;
    }
  }
  if (lines.empty()) lines = "no such attempt\n";
  if (left_out > 0) lines += fmt::format("… and {} older ones\n", left_out);
  return counts_by_category(state) + "\nthe newest first:\n" + lines;
}

}  // namespace marathon
