// The pipeline of a kernel: build, rules, check and measure (marathon-judge), profile. A step that
// fails stops the rest.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/file.h"
#include "judge/fingerprint.h"
#include "judge/pipeline.h"
#include "judge/rules.h"
#include "judge/sanitize.h"

namespace marathon {

namespace fs = std::filesystem;

namespace {

double seconds_since(int64_t start_us) {
  return 1e-6 * static_cast<double>(monotonic_us() - start_us);
}

class KernelJudge {
 public:
  KernelJudge(const LoadedTask& task, const EvaluationRequest& request, const StageSink& stage,
              std::stop_token stop)
      : task_(task),
        request_(request),
        stage_(stage),
        stop_(std::move(stop)),
        gpu_(is_gpu_task(task.task)) {}

  Result<Verdict> run() {
    const int64_t start_us = monotonic_us(), wall_us = wall_time_us();
    if (!request_.result_folder.empty()) TRY(make_folders(request_.result_folder));
    Verdict verdict = TRY(decide());
    verdict.build_output = libraries_.candidate.output;
    verdict.reasons.insert(verdict.reasons.end(), notes_.begin(), notes_.end());
    Provenance& by = verdict.provenance;
    fill_provenance(by, task_, request_);
    BuildJob compiled;
    compiled.language = language_;
    if (const Result<Compiler> compiler = compiler_of(compiled)) by.compiler = compiler->version;
    for (const std::string& flag : flags_) by.flags += (by.flags.empty() ? "" : " ") + flag;
    by.started_at_us = wall_us;
    by.build_s = build_s_;
    by.profile_s = profile_s_;
    by.sanitize_s = sanitize_s_;
    by.binary_hash = libraries_.candidate.library_hash;
    by.baseline_hash = libraries_.baseline.library_hash;
    by.seconds = seconds_since(start_us);
    return verdict;
  }

 private:
  Result<Verdict> decide() {
    if (std::optional<Verdict> refused = TRY(build_candidate())) return std::move(*refused);
    if (std::optional<Verdict> refused = TRY(check_rules())) return std::move(*refused);
    // What the candidate breaks or does not build is told without a GPU; nothing else is.
    if (gpu_) TRY(require_gpu(stop_));
    TRY(build_trusted(task_, request_, libraries_, stop_));
    TRY(build_incumbent());
    const fs::path cubin = gpu_ ? TRY(judge_cubin(request_, stop_)) : fs::path();
    const Json peaks = TRY(measured_peaks(request_, cubin, stop_));
    const Json answer =
        TRY(call_bench("evaluate", task_, request_, libraries_, peaks, stage_, stop_));
    Result<Verdict> verdict = verdict_from_json(answer);
    if (!verdict)
      return fail(Fault::system, "marathon-judge left no verdict: " + verdict.error().what);
    if (wants_sanitizers(*verdict)) TRY(sanitize(*verdict));
    if (wants_profile(*verdict)) TRY(profile(*verdict));
    return verdict;
  }

  // A verdict when the folder breaks a rule or does not build.
  Result<std::optional<Verdict>> build_candidate() {
    const int64_t start_us = monotonic_us();
    Result<Implementation> read =
        read_implementation(task_, request_.candidate_folder, Origin::candidate, request_);
    if (!read && read.error().fault != Fault::invalid) return tl::unexpected(read.error());
    if (!read) return refuse(VerdictKind::rule_broken, "rules", read.error().what, start_us);
    notes_ = std::move(read->notes);
    flags_ = read->job.flags;
    language_ = read->job.language;
    rules_ = binary_rules(task_.task, read->job);
    if (const std::optional<std::string> broken =
            TRY(broken_source_rule(task_.task, read->editable)))
      return refuse(VerdictKind::rule_broken, "rules", *broken, start_us);
    if (const std::optional<std::string> broken =
            broken_import_rule(read->job.language, read->editable, read->job.files))
      return refuse(VerdictKind::rule_broken, "rules", *broken, start_us);
    if (gpu_) notes_.push_back(note_on(compare_fingerprints(read->editable, known_fingerprints())));
    libraries_.candidate =
        TRY(build(read->job, request_.cache_folder, result_file("build.txt"), stop_));
    build_s_ = seconds_since(start_us);
    const BuildOutcome& built = libraries_.candidate;
    if (!built.ok) return refuse(VerdictKind::build_failed, "build", built.reason, start_us);
    TRY(stage_("build", built.cached ? "from the cache" : "built", build_s_));
    return std::optional<Verdict>();
  }

  Result<std::optional<Verdict>> check_rules() {
    const int64_t start_us = monotonic_us();
    const std::optional<std::string> broken = TRY(broken_built_rule());
    if (broken) return refuse(VerdictKind::rule_broken, "rules", *broken, start_us);
    TRY(stage_("rules", "kept", seconds_since(start_us)));
    return std::optional<Verdict>();
  }

  Result<std::optional<std::string>> broken_built_rule() {
    switch (language_) {
      case Language::cpp:
        return broken_library_rule(rules_, libraries_.candidate, request_.unsafe_no_sandbox, stop_);
      case Language::cuda:
        return broken_cuda_rule(rules_, libraries_.candidate);
      case Language::triton:
        break;  // its cubins are not there before it has run: marathon-judge looks at them
    }
    return std::optional<std::string>();
  }

  Result<std::optional<Verdict>> refuse(VerdictKind kind, const char* stage,
                                        const std::string& reason, int64_t start_us) {
    TRY(stage_(stage, reason, seconds_since(start_us)));
    return std::optional<Verdict>(failed_verdict(kind, reason));
  }

  Status build_incumbent() {
    if (request_.incumbent_folder.empty()) return {};
    const Implementation read =
        TRY(read_implementation(task_, request_.incumbent_folder, Origin::candidate, request_));
    libraries_.incumbent = TRY(build(read.job, request_.cache_folder, {}, stop_));
    if (!libraries_.incumbent.ok)
      return fail(Fault::system, "the incumbent does not build any more (" +
                                     libraries_.incumbent.reason +
                                     "): look at the compiler and the disk, then resume");
    return {};
  }

  // Of what a run would make its best.
  bool wants_sanitizers(const Verdict& verdict) const {
    if (task_.task.judge.sanitize.empty() || request_.effort == Effort::quick) return false;
    return promotes(verdict, !request_.incumbent_folder.empty());
  }

  Status sanitize(Verdict& verdict) {
    const int64_t start_us = monotonic_us();
    const SanitizeOutcome outcome =
        TRY(sanitize_gpu_kernel(task_, request_, libraries_, result_file("sanitize.txt"), stop_));
    sanitize_s_ = seconds_since(start_us);
    if (outcome.refused) {
      verdict.kind = *outcome.refused;
      verdict.reasons.insert(verdict.reasons.begin(), outcome.sentence);
    } else {
      verdict.reasons.push_back(outcome.sentence);
    }
    return stage_("sanitize", outcome.sentence, sanitize_s_);
  }

  // Empty when nobody asked for files.
  fs::path result_file(const char* name) const {
    return request_.result_folder.empty() ? fs::path() : request_.result_folder / name;
  }

  bool wants_profile(const Verdict& verdict) const {
    if (request_.profile) return is_measured(verdict.kind);
    return verdict.kind == VerdictKind::faster && verdict.confirmed && request_.profile_new_best &&
           task_.task.profile.on_new_best;
  }

  // A profile is an extra: what goes wrong with it is said in it and costs no verdict.
  Status profile(Verdict& verdict) {
    const int64_t start_us = monotonic_us();
    const fs::path raw = result_file("profile.txt");
    Result<ProfileSummary> summary =
        gpu_ ? profile_gpu_kernel(task_, request_, libraries_, verdict, raw, stop_)
             : profile_kernel(task_, request_, verdict, raw, stop_);
    if (!summary && summary.error().fault == Fault::cancelled)
      return tl::unexpected(summary.error());
    profile_s_ = seconds_since(start_us);
    verdict.profile = summary ? std::move(*summary)
                              : ProfileSummary{"none", {}, {"no profile: " + summary.error().what}};
    return stage_("profile",
                  verdict.profile->sentences.empty() ? "" : verdict.profile->sentences.front(),
                  profile_s_);
  }

  const LoadedTask& task_;
  const EvaluationRequest& request_;
  const StageSink& stage_;
  std::stop_token stop_;
  bool gpu_;
  Language language_ = Language::cpp;
  Libraries libraries_;
  BinaryRules rules_;
  std::vector<std::string> notes_, flags_;
  double build_s_ = 0, profile_s_ = 0, sanitize_s_ = 0;
};

}  // namespace

Result<Verdict> judge_kernel(const LoadedTask& task, const EvaluationRequest& request,
                             const StageSink& stage, std::stop_token stop) {
  return KernelJudge(task, request, stage, std::move(stop)).run();
}

}  // namespace marathon
