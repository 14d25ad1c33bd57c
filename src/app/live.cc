#include "app/live.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "app/report_model.h"
#include "base/clock.h"
#include "base/hash.h"

namespace marathon {

namespace {

int terminal_columns(std::FILE* out) {
  if (!::isatty(::fileno(out))) return 0;
  const char* kind = std::getenv("TERM");
  if (kind && std::string_view(kind) == "dumb") return 0;
  winsize size{};
  if (::ioctl(::fileno(out), TIOCGWINSZ, &size) != 0 || size.ws_col < 40) return 0;
  return size.ws_col;
}

// Code points, near enough to columns for what we print.
size_t columns_of(const std::string& text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

std::string cut_to(std::string text, size_t columns) {
  if (columns_of(text) <= columns) return text;
  while (!text.empty() && columns_of(text) >= columns) {
    while (!text.empty() && (text.back() & 0xc0) == 0x80) text.pop_back();
    if (!text.empty()) text.pop_back();
  }
  return text + "…";
}

}  // namespace

namespace {
// Cuts at a whole code point, so that the result stays valid UTF-8.
std::string clean(const std::string& text, size_t max_bytes, bool keep_lines) {
  std::string result;
  for (const char c : text) {
    if (result.size() >= max_bytes && (c & 0xc0) != 0x80) return result + "…";
    const bool control = static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
    result.push_back(control && !(keep_lines && (c == '\n' || c == '\t')) ? ' ' : c);
  }
  return result;
}
}  // namespace

std::string printable(const std::string& text, size_t max_bytes) {
  return clean(text, max_bytes, false);
}

std::string printable_lines(const std::string& text, size_t max_bytes) {
  return clean(text, max_bytes, true);
}

std::string speedup_text(const Interval& speedup) {
  return fmt::format("{:.2f}× ({:.2f}–{:.2f})", speedup.value, speedup.low, speedup.high);
}

std::string attempt_text(const Attempt& attempt) {
  const std::string verdict =
      attempt.verdict ? std::string(to_string(*attempt.verdict)) : "not judged";
  const bool measured = attempt.verdict && is_measured(*attempt.verdict);
  const std::string figure = measured ? speedup_text(attempt.speedup) : "";
  const std::string why = measured || attempt.reason.empty() ? attempt.hypothesis : attempt.reason;
  const char* where = attempt.elsewhere ? "(elsewhere) " : "";
  return fmt::format("{:>4}  {} {:<12} {:<20} {}{}", fmt::format("#{}", attempt.number),
                     attempt.became_incumbent ? "★" : " ", verdict, figure, where,
                     printable(why, 160));
}

std::string budget_text(const State& state) {
  std::string text = fmt::format("evaluations {}", state.spent.evaluations);
  if (state.budget.evaluations > 0) text += fmt::format(" of {}", state.budget.evaluations);
  if (state.budget.tool_calls > 0) {
    text += fmt::format(", tool calls {} of {}", state.spent.tool_calls, state.budget.tool_calls);
  }
  text += ", active " + format_duration(state.spent.active_s);
  if (state.budget.hours > 0) text += " of " + format_duration(state.budget.hours * 3600);
  return text;
}

std::string progress_text(const State& state, double floor_speedup) {
  std::string text = state.budget.evaluations > 0
                         ? fmt::format("[{}/{}]", state.spent.evaluations, state.budget.evaluations)
                         : fmt::format("[{}]", state.spent.evaluations);
  if (state.incumbent) text += " best " + speedup_text(state.incumbent->speedup);
  if (state.target.speedup > 0) text += fmt::format("  goal {:.2f}×", state.target.speedup);
  if (floor_speedup > 0) text += fmt::format("  floor {:.1f}×", floor_speedup);
  if (state.budget.hours > 0) {
    const double left_s = std::max(0.0, 3600 * state.budget.hours - state.spent.active_s);
    text += "  left " + format_duration(left_s);
  }
  return text;
}

Live::Live(std::FILE* out)
    : out_(out), columns_(terminal_columns(out)), started_us_(monotonic_us()) {}

Live::~Live() { clear(); }

void Live::clear() {
  if (drawn_) fmt::print(out_, "\r\x1b[K");
  drawn_ = false;
  std::fflush(out_);
}

void Live::print(const std::string& text) {
  clear();
  fmt::print(out_, "{}\n", columns_ ? cut_to(text, static_cast<size_t>(columns_)) : text);
  std::fflush(out_);
}

void Live::draw(const State& state) {
  if (columns_ == 0) return;
  std::string text = progress_text(state, floor_speedup_);
  text += fmt::format("  {}  {}", doing_,
                      format_duration(1e-6 * static_cast<double>(monotonic_us() - started_us_)));
  fmt::print(out_, "\r\x1b[K{}", cut_to(text, static_cast<size_t>(columns_ - 1)));
  std::fflush(out_);
  drawn_ = true;
}

void Live::on_event(const State& state, const Event&, const Payload& payload) {
  if (const RunStarted* started = std::get_if<RunStarted>(&payload)) {
    print(
        fmt::format("run {}  task {}  agent {}", started->run, started->task_name, started->agent));
    print("goal: " + printable(started->target.text, 200));
  } else if (const RunResumed* resumed = std::get_if<RunResumed>(&payload)) {
    print(fmt::format("resumed after {} attempts; {}", state.attempts.size(), budget_text(state)));
    doing_ = resumed->why;
  } else if (const NoiseMeasured* noise = std::get_if<NoiseMeasured>(&payload)) {
    print(
        fmt::format("noise of this machine ± {:.2f} %: a gain must exceed it", 100 * noise->noise));
  } else if (std::holds_alternative<TurnStarted>(payload)) {
    doing_ = "choosing the next candidate";
  } else if (const EvaluationStarted* evaluation = std::get_if<EvaluationStarted>(&payload)) {
    doing_ = "judging " + short_hash(evaluation->candidate);
  } else if (const EvaluationStage* stage = std::get_if<EvaluationStage>(&payload)) {
    doing_ = printable(stage->stage + ": " + stage->text, 60);
  } else if (const StorageWaited* waited = std::get_if<StorageWaited>(&payload)) {
    print(fmt::format("storage: waited {} ({})", format_duration(waited->seconds), waited->why));
  } else if (const EvaluationFinished* finished = std::get_if<EvaluationFinished>(&payload)) {
    if (const double floor = floor_speedup_of(finished->verdict); floor > 0) floor_speedup_ = floor;
    const auto found = state.attempt_of.find(finished->candidate);
    // A confirmed gain is printed when it becomes the incumbent, one event later.
    if (found != state.attempt_of.end()) {
      print(attempt_text(state.attempts[static_cast<size_t>(found->second)]));
    }
  } else if (const IncumbentChanged* changed = std::get_if<IncumbentChanged>(&payload)) {
    print(fmt::format("      ★ new best {}", speedup_text(changed->speedup)));
  }
  draw(state);
}

}  // namespace marathon
