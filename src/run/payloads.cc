#include "run/payloads.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/file.h"

namespace marathon {

namespace fs = std::filesystem;

namespace {

constexpr size_t room = static_cast<size_t>(max_inline_bytes) - 256;
constexpr size_t max_verdict_bytes = room - 512;  // beside the verdict: candidate, key, numbers
constexpr size_t max_build_output_bytes = 3000, max_reason_bytes = 800, max_reasons = 8;
constexpr size_t max_turn_text_bytes = 4000, max_calls = 32, max_name_bytes = 64;
constexpr int64_t max_attachment_bytes = 64LL << 20;
constexpr std::string_view beside_prefix = "artifact:";

size_t json_bytes(unsigned char c) {
  if (c == '"' || c == '\\' || c == '\n' || c == '\t' || c == '\r') return 2;
  if (c < 0x20 || c == 0x7f) return 6;
  return c < 0x80 ? 1 : 3;  // 3: what is not UTF-8 becomes U+FFFD
}

size_t size_of(const Verdict& verdict) { return dump_json(to_json(verdict)).size(); }

void cut_texts(Verdict& verdict, size_t max_bytes) {
  if (verdict.reasons.size() > max_reasons) verdict.reasons.resize(max_reasons);
  for (std::string& reason : verdict.reasons) reason = cut_for_json(reason, max_bytes);
  for (ShapeResult& shape : verdict.shapes) shape.reason = cut_for_json(shape.reason, max_bytes);
  if (!verdict.profile) return;
  std::vector<std::string>& sentences = verdict.profile->sentences;
  if (sentences.size() > max_reasons) sentences.resize(max_reasons);
  for (std::string& sentence : sentences) sentence = cut_for_json(sentence, max_bytes);
}

// In the order in which a reader of the log can do without them.
void drop_until_it_fits(Verdict& verdict) {
  const auto fits = [&] { return size_of(verdict) <= max_verdict_bytes; };
  for (ShapeResult& shape : verdict.shapes) shape.samples = {};
  if (fits()) return;
  for (ShapeResult& shape : verdict.shapes) {
    if (shape.reason.empty()) shape.outputs.clear();
  }
  cut_texts(verdict, max_reason_bytes / 2);
  verdict.build_output = cut_for_json(verdict.build_output, max_build_output_bytes / 2);
  if (fits()) return;
  for (ShapeResult& shape : verdict.shapes) shape.outputs.clear();
  if (fits()) return;
  // The listed ones decide, and the failing ones explain.
  std::erase_if(verdict.shapes, [](const ShapeResult& shape) {
    return shape.set != "listed" && shape.reason.empty();
  });
  cut_texts(verdict, max_reason_bytes / 4);
  if (verdict.profile && verdict.profile->figures.size() > 40) verdict.profile->figures.clear();
  while (!fits() && !verdict.shapes.empty()) verdict.shapes.pop_back();
  if (fits()) return;
  verdict.build_output.clear();
  verdict.profile.reset();
}

Result<std::string> attachment(const fs::path& file, Recorder& recorder) {
  const Result<std::string> bytes = read_file(file, max_attachment_bytes);
  if (!bytes || bytes->empty()) return std::string();
  return recorder.keep(*bytes);
}

Status attach_build_output(Verdict& verdict, const fs::path& result_folder, Recorder& recorder) {
  std::error_code none;
  const uintmax_t whole_bytes = fs::file_size(result_folder / "build.txt", none);
  const bool has_more = !none && whole_bytes > verdict.build_output.size();
  const std::string shown = cut_for_json(verdict.build_output, max_build_output_bytes);
  if (has_more) {
    verdict.build_output_artifact = TRY(attachment(result_folder / "build.txt", recorder));
  } else if (shown.size() < verdict.build_output.size()) {
    verdict.build_output_artifact = TRY(recorder.keep(verdict.build_output));
  }
  verdict.build_output = shown;
  return {};
}

void give_ids(std::vector<ToolCall>& calls, int64_t turn) {
  std::set<std::string> used;
  for (size_t i = 0; i < calls.size(); ++i) {
    ToolCall& call = calls[i];
    call.name = cut_for_json(call.name, max_name_bytes);
    call.id = cut_for_json(call.id, max_name_bytes);
    for (int n = 1; call.id.empty() || used.contains(call.id); ++n)
      call.id = fmt::format("{}-{}{}", turn, i + 1, n == 1 ? "" : fmt::format("-{}", n));
    used.insert(call.id);
  }
}

}  // namespace

std::string cut_for_json(std::string_view text, size_t max_bytes) {
  constexpr size_t mark_bytes = 9;  // "…", counted as what it may be at worst
  size_t bytes = 0, fits = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const unsigned char c = static_cast<unsigned char>(text[i]);
    const bool begins = (c & 0xc0) != 0x80;
    if (begins && bytes + mark_bytes <= max_bytes) fits = i;
    bytes += json_bytes(c);
    if (bytes > max_bytes) return std::string(text.substr(0, fits)) + "…";
  }
  return std::string(text);
}

Result<Verdict> fit_verdict(Verdict verdict, const fs::path& result_folder, Recorder& recorder) {
  const Verdict whole = verdict;
  TRY(attach_build_output(verdict, result_folder, recorder));
  verdict.profile_artifact = TRY(attachment(result_folder / "profile.txt", recorder));
  verdict.sanitize_artifact = TRY(attachment(result_folder / "sanitize.txt", recorder));
  cut_texts(verdict, max_reason_bytes);
  if (size_of(verdict) <= max_verdict_bytes) return verdict;
  verdict.whole_artifact = TRY(recorder.keep(dump_json(to_json(whole))));
  drop_until_it_fits(verdict);
  return verdict;
}

Result<TurnFinished> fit_turn(Turn turn, int64_t number, Recorder& recorder) {
  if (turn.calls.size() > max_calls) {
    turn.text += fmt::format("\n({} calls in one turn: all but the first {} are left out)",
                             turn.calls.size(), max_calls);
    turn.calls.resize(max_calls);
  }
  give_ids(turn.calls, number);
  TurnFinished finished{number,
                        turn.text,
                        std::move(turn.calls),
                        turn.input_tokens,
                        turn.output_tokens,
                        recorder.active_s(),
                        turn.exhausted};
  finished.text = cut_for_json(turn.text, max_turn_text_bytes);
  while (encode_payload(finished).size() > room) {
    const auto longest = std::ranges::max_element(finished.calls, {}, [](const ToolCall& call) {
      return are_beside(call) ? 0 : call.arguments.size();
    });
    longest->arguments = std::string(beside_prefix) + TRY(recorder.keep(longest->arguments));
  }
  return finished;
}

bool are_beside(const ToolCall& call) {
  return call.arguments.starts_with(beside_prefix) &&
         call.arguments.size() == beside_prefix.size() + 64;
}

Result<std::string> arguments_of(const ToolCall& call, const Artifacts& artifacts) {
  if (!are_beside(call)) return call.arguments.empty() ? "{}" : call.arguments;
  return artifacts.get(call.arguments.substr(beside_prefix.size()));
}

}  // namespace marathon
