// The report as one HTML file: no script, no font, no request. Everything that a candidate or a
// tool printed is escaped here and nowhere else.
#include <fmt/format.h>

#include <algorithm>

#include "app/live.h"
#include "app/report_model.h"
#include "base/clock.h"
#include "base/hash.h"

namespace marathon {

std::string escape_html(const std::string& text) {
  std::string escaped;
  escaped.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') {
          escaped += "\xef\xbf\xbd";  // terminal control means nothing in a page
        } else {
          escaped.push_back(c);
        }
    }
  }
  return escaped;
}

namespace {

constexpr const char* style = R"css(
:root{--bg:#fff;--fg:#1c2430;--soft:#5d6878;--line:#d9dee6;--card:#f5f7fa;--best:#0b62d6;--good:#137a3b;--bad:#b3261e;--warn:#8a5a00;--same:#6b7686}
@media(prefers-color-scheme:dark){:root{--bg:#12161c;--fg:#e4e9f0;--soft:#9aa7b8;--line:#2c3541;--card:#1a2029;--best:#6cb0ff;--good:#5cc98a;--bad:#ff8a80;--warn:#f0b75a;--same:#8e9aab}}
*{box-sizing:border-box}body{margin:0;background:var(--bg);color:var(--fg);font:15px/1.5 system-ui,sans-serif}
main{max-width:940px;margin:0 auto;padding:24px 16px 64px}h1{font-size:22px;margin:0 0 4px}h2{font-size:17px;margin:36px 0 10px}
.soft{color:var(--soft)}.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:10px;margin:18px 0}
.card{background:var(--card);border-radius:8px;padding:10px 14px}.card b{display:block;font-size:20px}.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:13.5px}th,td{text-align:left;padding:5px 10px 5px 0;border-bottom:1px solid var(--line);vertical-align:top}
th{color:var(--soft);font-weight:600}td.n{font-variant-numeric:tabular-nums;white-space:nowrap}tr.inc td{font-weight:600}
pre{background:var(--card);padding:12px;border-radius:8px;overflow-x:auto;font-size:12.5px;line-height:1.45;max-height:560px}
.add{color:var(--good)}.del{color:var(--bad)}.hunk{color:var(--best)}details{margin:8px 0}summary{cursor:pointer}
svg{width:100%;height:auto}svg text{fill:var(--soft);font-size:11px}.grid{stroke:var(--line)}.best{fill:none;stroke:var(--best);stroke-width:2}
.goal{stroke:var(--good);stroke-dasharray:6 4}.goal-text{fill:var(--good)}.floor{stroke:var(--warn);stroke-dasharray:2 3}.floor-text{fill:var(--warn)}
.v-faster{fill:var(--best)}.v-same{fill:var(--same)}.v-slower{fill:var(--same);opacity:.55}
.v-build_failed,.v-rule_broken,.v-crashed,.v-timed_out,.v-wrong{fill:var(--bad)}.v-ambiguous,.v-suspicious{fill:var(--warn)}
.t-faster{color:var(--best)}.t-build_failed,.t-rule_broken,.t-crashed,.t-timed_out,.t-wrong{color:var(--bad)}.t-ambiguous,.t-suspicious{color:var(--warn)}
)css";

std::string card(const std::string& label, const std::string& value) {
  return fmt::format("<div class='card'><span class='soft'>{}</span><b>{}</b></div>\n",
                     escape_html(label), escape_html(value));
}

std::string header(const ReportModel& model) {
  const State& state = model.state;
  std::string html = fmt::format("<h1>{}</h1>\n<p class='soft'>{}</p>\n", escape_html(model.run),
                                 escape_html(state.target.text));
  const std::string ending = state.ending ? std::string(to_string(state.ending->ending)) : "open";
  html += "<div class='cards'>\n" + card("ending", ending);
  html +=
      card("best speed-up", state.incumbent ? speedup_text(state.incumbent->speedup) : "none yet");
  if (state.target.speedup > 0) html += card("goal", fmt::format("{:.2f}×", state.target.speedup));
  if (model.floor_speedup > 0)
    html += card("physical floor", fmt::format("{:.1f}×", model.floor_speedup));
  html += card("evaluations", fmt::format("{}", state.spent.evaluations));
  html += card("active time", format_duration(state.spent.active_s)) + "</div>\n";
  if (state.ending) html += fmt::format("<p>{}</p>\n", escape_html(state.ending->evidence));
  return html;
}

std::string turning_points(const ReportModel& model) {
  std::string rows;
  for (const Attempt& attempt : model.state.attempts) {
    if (!attempt.became_incumbent) continue;
    rows += fmt::format(
        "<tr><td class='n'>#{}</td><td class='n'>{}</td><td "
        "class='n'>{}</td><td>{}</td><td>{}</td></tr>\n",
        attempt.number, speedup_text(attempt.speedup), format_duration(attempt.active_s),
        escape_html(attempt.category), escape_html(attempt.hypothesis));
  }
  if (rows.empty()) return "";
  return "<h2>Turning points</h2><div "
         "class='scroll'><table><tr><th>attempt</th><th>speed-up</th><th>after</th>"
         "<th>category</th><th>hypothesis</th></tr>\n" +
         rows + "</table></div>\n";
}

std::string shape_table(const Verdict& verdict) {
  std::string rows;
  for (const ShapeResult& shape : verdict.shapes) {
    const std::string speedup =
        shape.speedup.value > 0 ? speedup_text(shape.speedup) : "checked only";
    const std::string time = shape.time_us > 0 ? fmt::format("{:.1f}", shape.time_us) : "";
    const std::string base = shape.baseline_us > 0 ? fmt::format("{:.1f}", shape.baseline_us) : "";
    const std::string floor =
        shape.floor_us > 0 && shape.time_us > 0
            ? fmt::format("{:.0f} % ({})", 100 * shape.floor_us / shape.time_us, shape.bound_by)
            : "";
    // The baseline is not run on shapes that are only checked.
    const std::string error =
        fmt::format("{:.1e}", shape.error) +
        (shape.baseline_error > 0 ? fmt::format(" / {:.1e}", shape.baseline_error) : "");
    rows += fmt::format(
        "<tr><td>{}</td><td>{}</td><td class='n'>{}</td><td class='n'>{}</td><td class='n'>{}</td>"
        "<td class='n'>{}</td><td class='n'>{}</td></tr>\n",
        escape_html(shape.name), escape_html(shape.set), time, base, speedup, floor, error);
  }
  return "<div class='scroll'><table><tr><th>shape</th><th>set</th><th>µs</th><th>baseline "
         "µs</th><th>speed-up</th>"
         "<th>of the floor</th><th>error / baseline's</th></tr>\n" +
         rows + "</table></div>\n";
}

std::string profile_list(const std::string& title, const std::optional<Verdict>& verdict) {
  std::string html = "<h3>" + title + "</h3>\n";
  if (!verdict || !verdict->profile) return html + "<p class='soft'>no profile was taken</p>\n";
  html += "<ul>\n";
  for (const std::string& sentence : verdict->profile->sentences) {
    html += "<li>" + escape_html(sentence) + "</li>\n";
  }
  return html + fmt::format("</ul><p class='soft'>source: {}</p>\n",
                            escape_html(verdict->profile->source));
}

std::string diff_block(const std::string& diff) {
  if (diff.empty()) return "<p class='soft'>the starting solution is still the best</p>\n";
  std::string html = "<pre>";
  size_t at = 0;
  while (at < diff.size()) {
    const size_t end = std::min(diff.find('\n', at), diff.size());
    const std::string line = diff.substr(at, end - at);
    const char* kind = line.starts_with("@@")  ? "hunk"
                       : line.starts_with('+') ? "add"
                       : line.starts_with('-') ? "del"
                                               : "";
    html += *kind ? fmt::format("<span class='{}'>{}</span>\n", kind, escape_html(line))
                  : escape_html(line) + "\n";
    at = end + 1;
  }
  return html + "</pre>\n";
}

std::string attempts_table(const State& state) {
  std::string rows;
  for (const Attempt& attempt : state.attempts) {
    const std::string verdict =
        attempt.verdict ? std::string(to_string(*attempt.verdict)) : "not judged";
    const bool measured = attempt.verdict && is_measured(*attempt.verdict);
    rows += fmt::format(
        "<tr{}><td class='n'>#{}</td><td class='t-{}'>{}</td><td "
        "class='n'>{}</td><td>{}</td><td>{}</td>"
        "<td>{}</td><td class='n'>{}</td></tr>\n",
        attempt.became_incumbent ? " class='inc'" : "", attempt.number, verdict, verdict,
        measured ? speedup_text(attempt.speedup) : "", escape_html(attempt.category),
        escape_html(attempt.hypothesis), escape_html(attempt.reason),
        short_hash(attempt.candidate));
  }
  return "<div "
         "class='scroll'><table><tr><th></th><th>verdict</th><th>speed-up</th><th>category</"
         "th><th>hypothesis</th>"
         "<th>reason</th><th>candidate</th></tr>\n" +
         rows + "</table></div>\n";
}

std::string category_table(const State& state) {
  struct Count {
    int64_t attempts = 0, gains = 0, failed = 0;
    double best = 0;
  };
  std::map<std::string, Count> counts;
  for (const Attempt& attempt : state.attempts) {
    Count& count = counts[attempt.category];
    ++count.attempts;
    count.gains += attempt.became_incumbent ? 1 : 0;
    count.failed += attempt.verdict && !is_measured(*attempt.verdict) ? 1 : 0;
    if (attempt.verdict && is_measured(*attempt.verdict))
      count.best = std::max(count.best, attempt.speedup.value);
  }
  std::string rows;
  for (const auto& [category, count] : counts) {
    rows += fmt::format(
        "<tr><td>{}</td><td class='n'>{}</td><td class='n'>{}</td><td class='n'>{}</td><td "
        "class='n'>{:.2f}×</td></tr>\n",
        escape_html(category), count.attempts, count.gains, count.failed, count.best);
  }
  return "<table><tr><th>category</th><th>attempts</th><th>new bests</th><th>failed</th><th>best "
         "speed-up</th></tr>\n" +
         rows + "</table>\n";
}

std::string measured_how(const ReportModel& model) {
  std::string rows;
  for (const auto& [label, text] : how_it_was_measured(model)) {
    rows += fmt::format("<tr><th>{}</th><td>{}</td></tr>\n", escape_html(label), escape_html(text));
  }
  return "<table>" + rows + "</table>\n";
}

}  // namespace

std::string report_html(const ReportModel& model) {
  std::string html = fmt::format(
      "<!doctype html><html lang='en'><meta charset='utf-8'><meta name='viewport' "
      "content='width=device-width,"
      "initial-scale=1'><meta http-equiv='Content-Security-Policy' content=\"default-src "
      "'none';style-src "
      "'unsafe-inline'\"><title>{}</title><style>{}</style>\n<main>\n",
      escape_html(model.run), style);
  html += header(model);
  html += "<h2>Speed-up over evaluations</h2>\n" + speedup_curve_svg(model, CurveAxis::evaluations);
  html += "<h2>Speed-up over time</h2>\n" + speedup_curve_svg(model, CurveAxis::time);
  html += turning_points(model);
  if (model.best) html += "<h2>The best candidate by shape</h2>\n" + shape_table(*model.best);
  html += "<h2>Profile, before and after</h2>\n" +
          profile_list("the starting solution", model.start) +
          profile_list("the best candidate", model.best);
  html += "<h2>The best candidate against the start</h2>\n" + diff_block(model.diff);
  html += "<h2>By category</h2>\n" + category_table(model.state);
  html += "<h2>All attempts</h2>\n" + attempts_table(model.state);
  html += "<h2>How it was measured</h2>\n" + measured_how(model);
  return html + "</main></html>\n";
}

}  // namespace marathon
