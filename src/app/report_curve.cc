// The speed-up curve as SVG. Colours are CSS classes, so that the page's theme decides.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "app/live.h"
#include "app/report_model.h"

namespace marathon {

namespace {

constexpr double width = 860, height = 320, left = 52, right = 16, top = 14, bottom = 40;

struct Scale {
  double low = 0, high = 1, from = 0, to = 1;
  double operator()(double value) const {
    return from + (value - low) / (high - low) * (to - from);
  }
};

// 1, 2 or 5 times a power of ten, so that about `count` steps fit.
double nice_step(double range, int count) {
  const double raw = range / count;
  const double power = std::pow(10, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= raw) return factor * power;
  }
  return 10 * power;
}

double x_of(const Attempt& attempt, CurveAxis axis) {
  return axis == CurveAxis::evaluations ? static_cast<double>(attempt.evaluation)
                                        : attempt.active_s / 60;
}

struct Frame {
  Scale x, y;
  CurveAxis axis;
};

// The floor belongs into the picture only when it does not squeeze the curve.
bool shows_floor(const ReportModel& model, double highest) {
  return model.floor_speedup > 0 && model.floor_speedup < 3 * highest;
}

Frame frame_of(const ReportModel& model, CurveAxis axis) {
  double x_high = 1, y_high = std::max(1.0, model.state.target.speedup);
  for (const Attempt& attempt : model.state.attempts) {
    if (!attempt.verdict) continue;
    x_high = std::max(x_high, x_of(attempt, axis));
    if (is_measured(*attempt.verdict)) y_high = std::max(y_high, attempt.speedup.high);
  }
  if (shows_floor(model, y_high)) y_high = std::max(y_high, model.floor_speedup);
  return {{0, x_high * 1.02, left, width - right}, {0, y_high * 1.08, height - bottom, top}, axis};
}

std::string grid(const Frame& frame) {
  std::string svg;
  const double y_step = nice_step(frame.y.high, 5), x_step = nice_step(frame.x.high, 8);
  for (double y = 0; y < frame.y.high; y += y_step) {
    svg += fmt::format(
        "<line class='grid' x1='{}' x2='{}' y1='{:.1f}' y2='{:.1f}'/><text x='{}' y='{:.1f}' "
        "text-anchor='end'>{:g}×</text>\n",
        left, width - right, frame.y(y), frame.y(y), left - 6, frame.y(y) + 4, y);
  }
  for (double x = 0; x < frame.x.high; x += x_step) {
    svg += fmt::format("<text x='{:.1f}' y='{}' text-anchor='middle'>{:g}</text>\n", frame.x(x),
                       height - bottom + 16, x);
  }
  const char* label = frame.axis == CurveAxis::evaluations ? "evaluations" : "active minutes";
  return svg + fmt::format("<text x='{}' y='{}' text-anchor='middle'>{}</text>\n",
                           (left + width - right) / 2, height - 6, label);
}

std::string level_line(const Frame& frame, double speedup, const char* kind,
                       const std::string& label) {
  const double y = frame.y(speedup);
  return fmt::format(
      "<line class='{}' x1='{}' x2='{}' y1='{:.1f}' y2='{:.1f}'/><text class='{}-text' x='{}' "
      "y='{:.1f}' text-anchor='end'>{}</text>\n",
      kind, left, width - right, y, y, kind, width - right, y - 4, label);
}

std::string incumbent_line(const ReportModel& model, const Frame& frame) {
  std::string path;
  for (const Attempt& attempt : model.state.attempts) {
    if (!attempt.became_incumbent) continue;
    const double x = frame.x(x_of(attempt, frame.axis));
    path += path.empty() ? fmt::format("M{:.1f} {:.1f}", x, frame.y(attempt.speedup.value))
                         : fmt::format("H{:.1f}V{:.1f}", x, frame.y(attempt.speedup.value));
  }
  if (path.empty()) return "";
  return fmt::format("<path class='best' d='{}H{:.1f}'/>\n", path, width - right);
}

std::string points(const ReportModel& model, const Frame& frame) {
  std::string svg;
  for (const Attempt& attempt : model.state.attempts) {
    if (!attempt.verdict) continue;
    const bool measured = is_measured(*attempt.verdict);
    const double x = frame.x(x_of(attempt, frame.axis));
    const double y = frame.y(measured ? attempt.speedup.value : 0) - (measured ? 0 : 5);
    svg += fmt::format(
        "<circle class='v-{}' cx='{:.1f}' cy='{:.1f}' r='{}'><title>{}</title></circle>\n",
        to_string(*attempt.verdict), x, y, attempt.became_incumbent ? 4.5 : 3,
        escape_html(attempt_text(attempt)));
  }
  return svg;
}

}  // namespace

std::string speedup_curve_svg(const ReportModel& model, CurveAxis axis) {
  const Frame frame = frame_of(model, axis);
  std::string svg =
      fmt::format("<svg viewBox='0 0 {} {}' role='img' aria-label='speed-up over {}'>\n", width,
                  height, axis == CurveAxis::evaluations ? "evaluations" : "time");
  svg += grid(frame);
  if (model.state.target.speedup > 0) {
    svg += level_line(frame, model.state.target.speedup, "goal",
                      fmt::format("goal {:.2f}×", model.state.target.speedup));
  }
  if (model.floor_speedup > 0 && model.floor_speedup < frame.y.high) {
    svg += level_line(frame, model.floor_speedup, "floor",
                      fmt::format("floor {:.1f}×", model.floor_speedup));
  }
  return svg + incumbent_line(model, frame) + points(model, frame) + "</svg>\n";
}

}  // namespace marathon
