// The loop: settle what a process that ended left, then turn after turn until the stop rule says
// so.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "run/driver.h"
#include "run/payloads.h"
#include "run/tools.h"

namespace marathon {

namespace {

constexpr int64_t recalled_events = 400;  // the last 20 tool calls are among them

}  // namespace

Driver::Driver(RunLock lock, Recorder recorder, LoadedTask task, std::filesystem::path folder,
               const RunOptions& options, std::stop_token stop)
    : lock_(std::move(lock)),
      recorder_(std::move(recorder)),
      task_(std::move(task)),
      folder_(std::move(folder)),
      cache_folder_(options.home / "cache"),
      workspace_(folder_),
      own_executor_(options.executor ? nullptr : make_local_executor()),
      executor_(options.executor ? options.executor : own_executor_.get()),
      provider_(options.provider),
      unsafe_no_sandbox_(options.unsafe_no_sandbox),
      stop_at_goal_(options.stop_at_goal),
      stop_(std::move(stop)) {}

Status Driver::drive() {
  TRY(bring_provider());
  TRY(settle());
  TRY(recall_calls());
  TRY(unless_blocked(measure_machine()));
  TRY(unless_blocked(judge_start()));
  while (!state().ending && !stop_.stop_requested()) {
    if (TRY(end_if_due())) break;
    if (state().pending_calls.empty()) {
      TRY(take_turn());
    } else {
      TRY(answer_call());
    }
  }
  recorder_.write_snapshot();
  return {};
}

// A run goes on with the agent that it began with: the script was copied at the start.
Status Driver::bring_provider() {
  if (provider_) return {};
  const RunStarted& start = *state().start;
  own_provider_ = start.agent == "scripted" ? TRY(make_scripted_provider(folder_ / script_file))
                                            : make_search_provider();
  provider_ = own_provider_.get();
  if (provider_->name() == start.agent && provider_->detail() == start.agent_detail) return {};
  if (provider_->name() == start.agent && start.agent != "scripted") {
    recorder_.tell(
        fmt::format("the {} of this version of marathon ({}) is not the one that the run "
                    "began with ({}): it goes on with other proposals",
                    start.agent, provider_->detail(), start.agent_detail));
    return {};
  }
  return fail(Fault::invalid, fmt::format("the run began with agent '{}' ({}), which is not there "
                                          "any more: put it back, or start a new run",
                                          start.agent, start.agent_detail));
}

// What the judge calls invalid stays so until a person changes the task: the run ends.
Status Driver::unless_blocked(const Status& prepared) {
  if (prepared || prepared.error().fault != Fault::invalid) return prepared;
  const std::string why = "nothing can be judged: " + prepared.error().what;
  TRY(recorder_.record(RunEnded{Ending::blocked, cut_for_json(why, 2000), recorder_.active_s()}));
  return {};
}

// Only the real judge has noise worth measuring, and only a kernel's time is noisy.
Status Driver::measure_machine() {
  const bool measured =
      state().noise > 0 || std::ranges::any_of(state().attempts, [](const Attempt& attempt) {
        return !attempt.elsewhere;
      });
  if (state().ending || !own_executor_ || task().kind != TaskKind::kernel || measured) return {};
  EvaluationRequest request;
  request.task_folder = task_.folder;
  request.candidate_folder = task_.folder / task().files.start;
  request.unsafe_no_sandbox = unsafe_no_sandbox_;
  request.cache_folder = cache_folder_;
  const NoiseReport noise = TRY(measure_or_assume_noise(request, stop_));
  // Done again after a crash it must not stand there twice.
  if (!noise.assumed.empty() && state().notes.empty()) {
    TRY(recorder_.record(NoteAdded{fmt::format("noise assumed ± {:.0f} %: {}", 100 * noise.noise,
                                               cut_for_json(noise.assumed, 2000)),
                                   "judge"}));
  }
  TRY(recorder_.record(NoiseMeasured{noise.ratio, noise.noise, noise.pairs, recorder_.active_s()}));
  return {};
}

// Before any proposal: what is to be beaten, and that the task can be judged here at all.
Status Driver::judge_start() {
  // Verdicts from elsewhere may have come before it.
  const bool known = find_attempt(state(), state().start->start_candidate) != nullptr;
  const bool done = (known && state().attempts.size() > 1) || state().spent.turns > 0;
  if (state().ending || done || stop_.stop_requested()) return {};
  Submission submission = TRY(submission_of(state().start->workspace));
  submission.hypothesis = "the starting solution";
  submission.category = "start";
  submission.by = "task";
  TRY(judge(submission, 0));
  return {};
}

// A call that was begun is finished first, also when its evaluation was the last of the budget.
Result<bool> Driver::end_if_due() {
  if (state().tool_open) return false;
  StopRule rule;
  rule.at_limit = TRY(at_limit());
  rule.stop_at_goal = stop_at_goal_;
  rule.active_s = state().active_before_s + recorder_.active_s();
  rule.patience = patience_;
  std::optional<RunEnded> ended = ending_due(state(), rule);
  if (!ended) return false;
  ended->active_s = recorder_.active_s();
  TRY(recorder_.record(*ended));
  return true;
}

Status Driver::take_turn() {
  const int64_t number = state().spent.turns + 1;
  // A turn that was asked and not answered is asked again: what the lost answer cost is unknown.
  if (state().turn_open != number) TRY(recorder_.record(TurnStarted{number}));
  Turn turn = TRY(provider_->next(Context{task(), state()}, stop_));
  if (stop_.stop_requested()) return fail(Fault::cancelled, "stopped during a turn");
  const TurnFinished finished = TRY(fit_turn(std::move(turn), number, recorder_));
  const bool acts = !finished.calls.empty();
  TRY(recorder_.record(finished));
  patience_.turns_without_call = acts ? 0 : patience_.turns_without_call + 1;
  return {};
}

Status Driver::answer_call() {
  const ToolCall call = state().pending_calls.front();
  const int64_t turn = state().spent.turns;
  const bool again = state().tool_open && state().tool_open->call == call.id;
  if (!again) TRY(recorder_.record(ToolStarted{turn, call.id, call.name}));
  ++patience_.calls_without_evaluation;
  ToolResult result = TRY(run_tool(*this, call, again));
  TRY(recorder_.patiently([&] { return workspace_.change(result.written, artifacts()); },
                          "the workspace"));
  // One event holds the answer and what was written.
  const size_t written_bytes = 160 * result.written.size();
  const size_t room = max_tool_result_bytes - std::min(written_bytes, max_tool_result_bytes - 500);
  const std::string text = cut_for_json(result.text, room);
  TRY(recorder_.record(ToolFinished{turn, call.id, call.name, result.ok,
                                    repeats_.answer(call, text), result.written,
                                    recorder_.active_s()}));
  return {};
}

// The guard against repeated calls is no fact, so it is not in the fold: read off from the tail.
Status Driver::recall_calls() {
  const Reader reader = TRY(Reader::open(folder_));
  std::map<std::string, ToolCall> calls;
  return reader.each(
      std::max<int64_t>(state().events - recalled_events, 0), [&](const Event& event) {
        const Result<Payload> payload = decode_payload(event.payload_type, event.payload);
        if (!payload) return true;
        if (const TurnFinished* turn = std::get_if<TurnFinished>(&*payload)) {
          calls.clear();
          for (const ToolCall& call : turn->calls) calls[call.id] = call;
        } else if (const ToolFinished* done = std::get_if<ToolFinished>(&*payload)) {
          const auto call = calls.find(done->call);
          if (call != calls.end()) repeats_.recall(call->second, done->result);
        }
        return true;
      });
}

Result<bool> Driver::at_limit() {
  const Attempt* best = incumbent_of(state());
  if (!best) return false;
  if (limit_known_at_ == best->finished_sequence) return at_limit_;
  at_limit_ = is_at_limit(TRY(verdict_of(*best)));
  limit_known_at_ = best->finished_sequence;
  return at_limit_;
}

}  // namespace marathon
