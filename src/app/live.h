// What a person sees while a run works: one line a verdict, and on a terminal one live line below.
#pragma once

#include <cstdio>
#include <string>

#include "core/state.h"

namespace marathon {

class Live {
 public:
  // Lines go to `out`. The live line is drawn only when `out` is a terminal wider than 40 columns.
  explicit Live(std::FILE* out);
  ~Live();
  Live(const Live&) = delete;
  Live& operator=(const Live&) = delete;

  void on_event(const State& state, const Event& event, const Payload& payload);
  void clear();  // removes the live line, e.g. before an error is printed

 private:
  void print(const std::string& text);
  void draw(const State& state);

  std::FILE* out_;
  int columns_ = 0;  // 0: no terminal
  bool drawn_ = false;
  double floor_speedup_ = 0;  // of the last verdict that had one
  std::string doing_;         // what is happening now
  int64_t started_us_;
};

// "2.41× (2.35–2.47)"
std::string speedup_text(const Interval& speedup);
// "[12/60] best 2.41× (2.35–2.47)  goal 3.00×  floor 5.6×  left 7 h 12 min"; zero: unknown.
std::string progress_text(const State& state, double floor_speedup);
// One line for an attempt: number, verdict, speed-up, category, hypothesis.
std::string attempt_text(const Attempt& attempt);
// "evaluations 12 of 60, active 1 min 12 s of 8 h": only limits in use.
std::string budget_text(const State& state);
// Terminal control and other unprintable characters out, at most `max_bytes` long.
std::string printable(const std::string& text, size_t max_bytes);
// The same, but line breaks and tabs stay.
std::string printable_lines(const std::string& text, size_t max_bytes);

}  // namespace marathon
