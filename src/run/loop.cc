// The loop: settle what a crash left, then turn after turn until the stop rule says so.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "base/hash.h"
#include "run/driver.h"
#include "run/stop_rule.h"
#include "run/tools.h"

namespace marathon {

namespace {

constexpr size_t max_arguments_bytes = 6000, max_text_bytes = 2000;

// Long arguments lie beside the log; the event names them.
Status move_long_arguments(Turn& turn, Recorder& recorder) {
  for (ToolCall& call : turn.calls) {
    if (call.arguments.size() > max_arguments_bytes)
      call.arguments = "artifact:" + TRY(recorder.keep(call.arguments));
  }
  if (turn.text.size() > max_text_bytes) turn.text.resize(max_text_bytes);
  return {};
}

}  // namespace

Status Driver::drive(std::stop_token stop) {
  if (!provider_) {
    const std::string& agent = state().start->agent;
    own_provider_ = agent == "scripted" ? TRY(make_scripted_provider(folder_ / "script.jsonl"))
                                        : make_search_provider();
    provider_ = own_provider_.get();
  }
  TRY(settle(stop));
  TRY(measure_machine(stop));
  TRY(judge_start(stop));
  while (!stop.stop_requested()) {
    // A call that was begun is finished first, also when its evaluation was the last of the budget.
    if (!state().tool_open) {
      if (std::optional<RunEnded> ended = ending_due(state(), TRY(at_limit()), active_s())) {
        ended->active_s = recorder_.active_s();
        TRY(recorder_.record(*ended));
        break;
      }
    }
    if (state().pending_calls.empty()) TRY(take_turn(stop));
    TRY(run_calls(stop));
  }
  return recorder_.finish();
}

// Intents without an outcome. A turn is simply asked for again; a tool is redone from known
// content.
Status Driver::settle(std::stop_token stop) {
  TRY(workspace_.restore(state().workspace, recorder_.artifacts()));
  if (state().evaluation_open) {
    const OpenEvaluation open = *state().evaluation_open;
    TRY(recorder_.record(EvaluationRepeated{open.evaluation, open.key,
                                            "the process ended before its outcome was on record"}));
    return run_evaluation(open, stop);
  }
  // A verdict may be on record and the promotion that follows from it not yet.
  const auto newest = std::max_element(
      state().attempts.begin(), state().attempts.end(),
      [](const Attempt& a, const Attempt& b) { return a.finished_sequence < b.finished_sequence; });
  if (newest != state().attempts.end() && newest->finished_sequence > 0)
    TRY(promote_if_due(newest->candidate));
  return {};
}

Status Driver::measure_machine(std::stop_token stop) {
  if (!measure_noise_ || task_.task.kind != TaskKind::kernel || state().noise > 0) return {};
  EvaluationRequest request;
  request.task_folder = folder_ / "task";
  request.unsafe_no_sandbox = unsafe_no_sandbox_;
  request.cache_folder = folder_.parent_path().parent_path() / "cache";
  const Result<NoiseReport> noise = measure_noise(request, stop);
  if (!noise && noise.error().fault == Fault::invalid) {
    TRY(recorder_.record(RunEnded{Ending::blocked, noise.error().what, recorder_.active_s()}));
    return fail(noise.error(), "nothing can be judged");
  }
  if (!noise) return tl::unexpected(noise.error());
  TRY(recorder_.record(
      NoiseMeasured{noise->ratio, noise->noise, noise->pairs, recorder_.active_s()}));
  return {};
}

Status Driver::judge_start(std::stop_token stop) {
  Submission submission = TRY(submission_of(state().start->workspace));
  const auto known = state().attempt_of.find(submission.candidate);
  const bool judged = known != state().attempt_of.end() &&
                      state().attempts[static_cast<size_t>(known->second)].verdict;
  if (judged || stop.stop_requested()) return {};
  submission.hypothesis = "the starting solution";
  submission.category = "start";
  submission.by = "task";
  const Result<int64_t> number = judge(submission, stop);
  if (!number && number.error().fault == Fault::invalid) {
    TRY(recorder_.record(RunEnded{Ending::blocked, number.error().what, recorder_.active_s()}));
    return fail(number.error(), "nothing can be judged");
  }
  if (!number) return tl::unexpected(number.error());
  return {};
}

Status Driver::take_turn(std::stop_token stop) {
  const int64_t number = state().spent.turns + 1;
  TRY(recorder_.record(TurnStarted{number}));
  Turn turn = TRY(provider_->next(Context{task_.task, state()}, stop));
  TRY(move_long_arguments(turn, recorder_));
  for (size_t i = 0; i < turn.calls.size(); ++i) {
    if (turn.calls[i].id.empty()) turn.calls[i].id = fmt::format("{}-{}", number, i + 1);
  }
  TurnFinished finished{number,
                        turn.text,
                        turn.calls,
                        turn.input_tokens,
                        turn.output_tokens,
                        recorder_.active_s(),
                        turn.exhausted};
  TRY(recorder_.record(finished));
  return {};
}

Status Driver::run_calls(std::stop_token stop) {
  const std::vector<ToolCall> calls = state().pending_calls;
  for (const ToolCall& call : calls) {
    if (stop.stop_requested()) return {};
    if (state().budget.evaluations > 0 && state().spent.evaluations >= state().budget.evaluations &&
        !state().tool_open)
      return {};
    TRY(recorder_.record(ToolStarted{state().spent.turns, call.id, call.name}));
    ToolResult result = TRY(run_tool(*this, call, stop));
    if (result.text.size() > 8000) result.text.resize(8000);
    ToolFinished finished{state().spent.turns, call.id,        call.name,           result.ok,
                          result.text,         result.written, recorder_.active_s()};
    for (const auto& [path, hash] : result.written) {
      if (hash.empty()) continue;
      TRY(workspace_.write(path, TRY(recorder_.artifacts().get(hash))));
    }
    TRY(recorder_.record(finished));
  }
  return {};
}

Result<bool> Driver::at_limit() {
  if (!state().incumbent) return false;
  const Attempt& best = state().attempts[static_cast<size_t>(state().incumbent->attempt - 1)];
  if (limit_known_at_ == best.finished_sequence) return at_limit_;
  const Reader reader = TRY(Reader::open(folder_));
  const Event event = TRY(reader.at(best.finished_sequence));
  const Payload payload = TRY(decode_payload(event.payload_type, event.payload));
  const EvaluationFinished* finished = std::get_if<EvaluationFinished>(&payload);
  limit_known_at_ = best.finished_sequence;
  at_limit_ = finished && is_at_limit(finished->verdict);
  return at_limit_;
}

}  // namespace marathon
