// Verdicts from another machine: taken into the log like any other attempt, with a mark.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/file.h"
#include "base/hash.h"
#include "run/open.h"
#include "run/payloads.h"

namespace marathon {

namespace fs = std::filesystem;

namespace {

constexpr int64_t max_result_bytes = 512LL << 20;

// The GPU's model; of a task for the CPU its model. Empty: not known.
std::string model_of(const Task& task, const Verdict& verdict) {
  if (!is_gpu_task(task)) return verdict.provenance.cpu;
  return verdict.provenance.gpu ? verdict.provenance.gpu->name : "";
}

std::string in_words(const std::string& model) {
  return model.empty() ? "an unknown model" : model;
}

std::string text_of(const JudgedCandidate& judged) { return dump_json(to_json(judged)); }

// Hashes of the results that are in the log.
Result<std::set<std::string>> taken_results(const fs::path& folder) {
  std::set<std::string> taken;
  const Reader reader = TRY(Reader::open(folder));
  TRY(reader.each(0, [&](const Event& event) {
    if (event.payload_type != "evaluation.started") return true;
    const Result<Payload> payload = decode_payload(event.payload_type, event.payload);
    const EvaluationStarted* started =
        payload ? std::get_if<EvaluationStarted>(&*payload) : nullptr;
    if (started && !started->result.empty()) taken.insert(started->result);
    return true;
  }));
  return taken;
}

// Empty: it is new. Else why it adds nothing.
std::string why_known(const JudgedCandidate& judged, const State& state,
                      const std::set<std::string>& taken) {
  if (taken.contains(sha256_hex(text_of(judged)))) return "this result is in the log already";
  const Attempt* attempt = find_attempt(state, judged.candidate);
  if (!attempt || !attempt->verdict || *attempt->verdict == VerdictKind::ambiguous) return "";
  // A verdict from elsewhere that could not count may be followed by one that can.
  if (attempt->elsewhere && !attempt->became_incumbent) return "";
  return fmt::format("attempt #{} has a verdict already ({}), which stands", attempt->number,
                     to_string(*attempt->verdict));
}

struct Sorted {
  std::vector<const JudgedCandidate*> fresh;
  std::vector<std::string> known;  // sentences
};

Sorted sort_out(const JudgeResults& results, const State& state,
                const std::set<std::string>& taken) {
  Sorted sorted;
  for (const JudgedCandidate& judged : results.judged) {
    const std::string why = why_known(judged, state, taken);
    if (why.empty())
      sorted.fresh.push_back(&judged);
    else
      sorted.known.push_back(fmt::format("{}: {}", short_hash(judged.candidate), why));
  }
  return sorted;
}

// All of them were compared with the same incumbent, so one at most can follow it: the fastest.
void put_best_first(std::vector<const JudgedCandidate*>& fresh, const State& state) {
  const bool has_incumbent = state.incumbent.has_value();
  const auto merit = [&](const JudgedCandidate* judged) {
    if (judged->quick || !promotes(judged->verdict, has_incumbent)) return 0.0;
    if (has_incumbent && judged->incumbent != state.incumbent->candidate) return 0.0;
    return has_incumbent ? judged->verdict.gain.value : judged->verdict.speedup.value;
  };
  const auto best = std::ranges::max_element(fresh, {}, merit);
  if (best != fresh.end()) std::rotate(fresh.begin(), best, best + 1);
}

Status require_task(const JudgeRequest& request, const State& state) {
  if (!state.start) return fail(Fault::invalid, "the run has just been created: start it first");
  if (request.task_hash == state.start->task_hash) return {};
  return fail(Fault::invalid,
              fmt::format("the results are of another task ({}, {}) than the run's ({}, {}): pack "
                          "the candidates with the run's own copy of its task, which is the folder "
                          "'task' in the run's folder",
                          request.task_name, short_hash(request.task_hash), state.start->task_name,
                          short_hash(state.start->task_hash)));
}

// A result names only what a candidate of this task may hold.
Status require_editable(const Task& task, const JudgedCandidate& judged) {
  const bool allowed = std::ranges::all_of(
      judged.files, [&](const auto& file) { return is_editable(task, file.first); });
  if (allowed) return {};
  return fail(Fault::corrupt, fmt::format("candidate {} brings files that the task does not let "
                                          "anybody edit: its result is refused",
                                          short_hash(judged.candidate)));
}

Result<JudgeResults> read_results(const fs::path& file) {
  const Json json = TRY(parse_json(TRY(read_file(file, max_result_bytes))));
  return judge_results_from(json);
}

std::string first_of(const std::string& a, const std::string& b, const std::string& c) {
  return !a.empty() ? a : !b.empty() ? b : c;
}

Status take_results(Driver& driver, const AttemptOptions& options, const JudgeResults& results) {
  TRY(driver.settle());
  for (const JudgedCandidate& judged : results.judged) TRY(require_editable(driver.task(), judged));
  Sorted sorted = sort_out(results, driver.state(), TRY(taken_results(driver.folder())));
  put_best_first(sorted.fresh, driver.state());
  for (const JudgedCandidate* judged : sorted.fresh) {
    FileHashes files;
    for (const auto& [path, content] : judged->files)
      files[path] = TRY(driver.recorder().keep(content));
    Submission submission = TRY(driver.submission_of(std::move(files)));
    submission.hypothesis =
        first_of(options.note, judged->note, "judged elsewhere: " + judged->name);
    submission.category = first_of(judged->category, options.category, "person");
    submission.by = "elsewhere";
    TRY(driver.take(submission, *judged));
  }
  for (const std::string& known : sorted.known) driver.recorder().tell(known);
  return {};
}

}  // namespace

Status Driver::take(const Submission& submission, const JudgedCandidate& judged) {
  if (!find_attempt(state(), submission.candidate)) TRY(add_candidate(submission));
  EvaluationStarted started;
  started.candidate = submission.candidate;
  started.incumbent = judged.incumbent;
  // Durable before the intent that names it: after a crash its outcome is made from it.
  started.result = TRY(recorder_.keep(text_of(judged)));
  TRY(start_evaluation(std::move(started)));
  return run_evaluation();
}

// As it was judged, and what this run has to say about it.
Result<Verdict> Driver::verdict_from(const std::string& result) const {
  JudgedCandidate judged =
      TRY(judged_candidate_from(TRY(parse_json(TRY(artifacts().get(result))))));
  Verdict verdict = std::move(judged.verdict);
  // Artifacts of this run are made here; those of another one are not in it.
  visit_artifacts(verdict, [](std::string& hash) { hash.clear(); });
  verdict.provenance.elsewhere = judged.request;
  verdict.provenance.effort = judged.quick ? "quick" : "full";
  verdict.provenance.task_hash = judged.task_hash;
  verdict.provenance.candidate_hash = judged.candidate;
  verdict.provenance.incumbent_hash = judged.incumbent;
  if (promotes(verdict, state().incumbent.has_value())) {
    if (const std::optional<std::string> why = TRY(why_held_back(verdict)))
      verdict.reasons.insert(verdict.reasons.begin() + (verdict.reasons.empty() ? 0 : 1), *why);
  }
  return verdict;
}

// The rule (docs/gpu.md): a full judgement, against the very incumbent that this run has, on the
// model on which that was measured.
Result<std::optional<std::string>> Driver::why_held_back(const Verdict& verdict) const {
  const Provenance& by = verdict.provenance;
  const auto held = [](const std::string& why) {
    return std::optional<std::string>("judged elsewhere and not the best: " + why);
  };
  if (by.elsewhere.empty()) return std::optional<std::string>();
  if (by.effort != "full") return held("a quick look never promotes; judge it in full");
  const Attempt* best = incumbent_of(state());
  if (!best) return std::optional<std::string>();
  if (by.incumbent_hash != best->candidate)
    return held(
        fmt::format("it was compared with {}, and the best of the run is {} (attempt #{}); "
                    "pack it again with --incumbent",
                    by.incumbent_hash.empty() ? "the baseline only"
                                              : "incumbent " + short_hash(by.incumbent_hash),
                    short_hash(best->candidate), best->number));
  const std::string own = model_of(task(), verdict),
                    known = model_of(task(), TRY(verdict_of(*best)));
  if (!own.empty() && own == known) return std::optional<std::string>();
  return held(fmt::format("it was measured on {}, the best of the run on {}", in_words(own),
                          in_words(known)));
}

Result<RunOutcome> attempt_from_result(const AttemptOptions& options, std::stop_token stop) {
  const std::string name = options.from_result.string();
  Result<JudgeResults> results = read_results(options.from_result);
  if (!results) return fail(results.error(), name);
  if (results->judged.empty())
    return fail(Fault::invalid, name + " holds no verdict yet: finish `marathon judge --request`");
  // Read first: what adds nothing leaves no trace either.
  const fs::path folder = run_folder(options.home, options.run);
  const State state = TRY(TRY(Reader::open(folder)).fold());
  TRY(require_task(results->request, state));
  const Sorted sorted = sort_out(*results, state, TRY(taken_results(folder)));
  if (sorted.fresh.empty() && !state.evaluation_open) {
    for (const std::string& known : sorted.known)
      if (options.on_trouble) options.on_trouble(known);
    return RunOutcome{options.run, state};
  }
  const std::unique_ptr<Driver> driver =
      TRY(open_run(as_run_options(options), options.run, "results from elsewhere", true, stop));
  return outcome_of(take_results(*driver, options, *results), *driver, stop);
}

}  // namespace marathon
