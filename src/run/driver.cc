// Judging inside of a run: intent, act, outcome; answers from the log; promotion.
#include "run/driver.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/hash.h"
#include "base/random.h"
#include "run/stop_rule.h"

namespace marathon {

namespace fs = std::filesystem;

namespace {

constexpr int judge_attempts = 3;
constexpr int64_t ambiguous_again =
    2;  // a candidate that could not be measured may be judged so often again
constexpr size_t max_inline_verdict = static_cast<size_t>(max_inline_bytes) - 2048;

std::string evaluation_key(const State& state, const std::string& candidate, int64_t evaluation) {
  Sha256 hash;
  hash.update_field(state.start ? state.start->run : "");
  hash.update_field(candidate);
  hash.update_field(std::to_string(evaluation));
  return hash.finish_hex();
}

bool may_be_judged(const Attempt& attempt) {
  return !attempt.verdict ||
         (*attempt.verdict == VerdictKind::ambiguous && attempt.evaluations <= ambiguous_again);
}

}  // namespace

Driver::Driver(RunLock lock, Recorder recorder, LoadedTask task, fs::path folder,
               const RunOptions& options)
    : lock_(std::move(lock)),
      recorder_(std::move(recorder)),
      task_(std::move(task)),
      folder_(std::move(folder)),
      workspace_(folder_),
      own_executor_(options.executor ? nullptr : make_local_executor()),
      executor_(options.executor ? options.executor : own_executor_.get()),
      measure_noise_(options.executor == nullptr),
      provider_(options.provider),
      unsafe_no_sandbox_(options.unsafe_no_sandbox) {}

Result<Submission> Driver::submission_of(const FileHashes& files) const {
  Sha256 hash;
  for (const auto& [path, content] : files) {
    hash.update_field(path);
    hash.update_field(TRY(recorder_.artifacts().get(content)));
  }
  Submission submission;
  submission.files = files;
  submission.candidate = hash.finish_hex();
  return submission;
}

Result<int64_t> Driver::judge(const Submission& submission, std::stop_token stop) {
  const auto known = state().attempt_of.find(submission.candidate);
  if (known == state().attempt_of.end()) TRY(add_candidate(submission));
  const int64_t index = state().attempt_of.at(submission.candidate);
  if (may_be_judged(state().attempts[static_cast<size_t>(index)])) TRY(evaluate(index, stop));
  return index + 1;
}

Status Driver::add_candidate(const Submission& submission) {
  CandidateAdded added;
  added.candidate = submission.candidate;
  added.files = submission.files;
  added.hypothesis = submission.hypothesis.substr(0, 2000);
  added.category = submission.category.substr(0, 100);
  added.by = submission.by;
  std::string parent_commit;
  if (state().incumbent) {
    added.parent = state().incumbent->candidate;
    parent_commit =
        state().attempts[static_cast<size_t>(state().attempt_of.at(added.parent))].commit;
  }
  const auto params = submission.files.find(std::string(params_file));
  if (params != submission.files.end() && !task_.task.parameters.empty()) {
    const Result<Configuration> configuration =
        parse_params_toml(task_.task, TRY(recorder_.artifacts().get(params->second)));
    if (configuration) added.configuration = *configuration;
  }
  const int64_t number = static_cast<int64_t>(state().attempts.size()) + 1;
  added.commit = TRY(workspace_.commit(
      submission.files, recorder_.artifacts(), submission.candidate, parent_commit, number,
      fmt::format("#{} {}: {}\n", number, added.category, added.hypothesis)));
  TRY(recorder_.record(added));
  return {};
}

Status Driver::evaluate(int64_t attempt_index, std::stop_token stop) {
  const Attempt& attempt = state().attempts[static_cast<size_t>(attempt_index)];
  EvaluationStarted started;
  started.evaluation = state().spent.evaluations + 1;
  started.candidate = attempt.candidate;
  started.incumbent = state().incumbent ? state().incumbent->candidate : "";
  started.key = evaluation_key(state(), attempt.candidate, started.evaluation);
  started.seed = secret_seed() >> 1;  // fits JSON readers that know no unsigned numbers
  TRY(recorder_.record(started));
  return run_evaluation(*state().evaluation_open, stop);
}

Status Driver::run_evaluation(const OpenEvaluation& intent, std::stop_token stop) {
  const OpenEvaluation open = intent;  // the state's own changes below
  const EvaluationRequest request = TRY(request_for(open));
  const StageSink stage = [&](const std::string& name, const std::string& text,
                              double seconds) -> Status {
    TRY(recorder_.record(EvaluationStage{open.evaluation, name, text.substr(0, 1000), seconds}));
    return {};
  };
  Result<Verdict> verdict = executor_->evaluate(request, stage, stop);
  for (int attempt = 1; attempt < judge_attempts && !verdict; ++attempt) {
    const Fault fault = verdict.error().fault;
    if (fault != Fault::busy && fault != Fault::retry && fault != Fault::no_space) break;
    for (int i = 0; i < 100 * attempt && !stop.stop_requested(); ++i) ::usleep(10'000);
    verdict = executor_->evaluate(request, stage, stop);
  }
  if (!verdict) return fail(verdict.error(), fmt::format("evaluation {}", open.evaluation));
  EvaluationFinished finished;
  finished.evaluation = open.evaluation;
  finished.candidate = open.candidate;
  finished.key = open.key;
  finished.verdict = TRY(keep_attachments(std::move(*verdict), request.result_folder));
  finished.active_s = recorder_.active_s();
  TRY(recorder_.record(finished));
  return promote_if_due(open.candidate);
}

// What is large goes to artifacts; the event keeps its hash.
Result<Verdict> Driver::keep_attachments(Verdict verdict, const fs::path& results) {
  if (const Result<std::string> whole = read_file(results / "build.txt", 64 << 20);
      whole && whole->size() > 4096) {
    verdict.build_output_artifact = TRY(recorder_.keep(*whole));
  }
  if (const Result<std::string> raw = read_file(results / "profile.txt", 64 << 20);
      raw && !raw->empty()) {
    verdict.profile_artifact = TRY(recorder_.keep(*raw));
  }
  if (verdict.build_output.size() > 2000) verdict.build_output.resize(2000);
  for (std::string& reason : verdict.reasons) {
    if (reason.size() > 1000) reason.resize(1000);
  }
  if (dump_json(to_json(verdict)).size() <= max_inline_verdict) return verdict;
  verdict.whole_artifact = TRY(recorder_.keep(dump_json(to_json(verdict))));
  for (ShapeResult& shape : verdict.shapes) shape.samples = {};
  for (ShapeResult& shape : verdict.shapes) {
    if (dump_json(to_json(verdict)).size() <= max_inline_verdict) break;
    shape.outputs.clear();
  }
  if (dump_json(to_json(verdict)).size() > max_inline_verdict) verdict.shapes.clear();
  return verdict;
}

// `faster` counts after the judge confirmed it. The first candidate that passes is the incumbent
// whatever its speed: there must be something to beat.
Status Driver::promote_if_due(const std::string& candidate) {
  const Attempt& attempt = state().attempts[static_cast<size_t>(state().attempt_of.at(candidate))];
  if (!attempt.verdict || attempt.became_incumbent) return {};
  const bool first = !state().incumbent && is_measured(*attempt.verdict);
  if (!first && *attempt.verdict != VerdictKind::faster) return {};
  IncumbentChanged changed;
  changed.candidate = candidate;
  changed.previous = state().incumbent ? state().incumbent->candidate : "";
  changed.speedup = attempt.speedup;
  changed.gain = attempt.gain;
  changed.evaluation = attempt.evaluation;
  TRY(workspace_.set_best(attempt.commit));
  TRY(recorder_.record(changed));
  return {};
}

Status Driver::bring_files(const std::string& candidate, const fs::path& folder) {
  const FileHashes files = TRY(
      files_of(folder_, state().attempts[static_cast<size_t>(state().attempt_of.at(candidate))]));
  return write_files(files, recorder_.artifacts(), folder);
}

Result<EvaluationRequest> Driver::request_for(const OpenEvaluation& open) {
  const fs::path scratch = folder_ / "scratch";
  EvaluationRequest request;
  request.task_folder = folder_ / "task";
  request.candidate_folder = scratch / "candidate";
  TRY(bring_files(open.candidate, request.candidate_folder));
  if (!open.incumbent.empty()) {
    request.incumbent_folder = scratch / "incumbent";
    TRY(bring_files(open.incumbent, request.incumbent_folder));
    request.incumbent_speedup = state().incumbent ? state().incumbent->speedup.value : 0;
  }
  request.result_folder = scratch / "result";
  TRY(remove_tree(request.result_folder));
  TRY(make_folders(request.result_folder));
  request.seed = open.seed;
  request.noise = state().noise;
  request.unsafe_no_sandbox = unsafe_no_sandbox_;
  request.cache_folder = folder_.parent_path().parent_path() / "cache";
  return request;
}

Result<FileHashes> files_of(const fs::path& run_folder, const Attempt& attempt) {
  const Reader reader = TRY(Reader::open(run_folder));
  const Event event = TRY(reader.at(attempt.added_sequence));
  const Payload payload = TRY(decode_payload(event.payload_type, event.payload));
  const CandidateAdded* added = std::get_if<CandidateAdded>(&payload);
  if (added) return added->files;
  return fail(Fault::corrupt,
              fmt::format("the log does not say which files attempt #{} has; run `marathon verify`",
                          attempt.number));
}

std::string answer_about(const State& state, const Attempt& attempt, bool from_the_log) {
  const bool measured = attempt.verdict && is_measured(*attempt.verdict);
  Json json = {{"attempt", attempt.number},
               {"verdict", attempt.verdict ? to_string(*attempt.verdict) : "not judged"},
               {"reason", attempt.reason},
               {"new_best", attempt.became_incumbent}};
  if (measured) {
    json["speedup"] = {attempt.speedup.value, attempt.speedup.low, attempt.speedup.high};
    json["gain_over_incumbent"] = {attempt.gain.value, attempt.gain.low, attempt.gain.high};
  }
  if (from_the_log)
    json["note"] =
        "these very files were judged before; this is that verdict, and no evaluation was spent";
  if (!attempt.profile_sentence.empty()) json["profile"] = attempt.profile_sentence;
  if (state.incumbent) json["best_speedup"] = state.incumbent->speedup.value;
  return dump_json(json);
}

}  // namespace marathon
