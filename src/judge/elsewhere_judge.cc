// Judging a request folder: one candidate after the other, the result file renewed after each.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/hash.h"
#include "judge/elsewhere_pack.h"
#include "judge/judge.h"

namespace marathon {

namespace fs = std::filesystem;

namespace {

constexpr int tries_of_one = 3;
constexpr int64_t max_result_bytes = 512LL << 20;

bool passes(Fault fault) {
  return fault == Fault::retry || fault == Fault::busy || fault == Fault::timeout;
}

// Two jobs with one result file would take each other's verdicts away.
Result<Fd> lock_beside(const fs::path& result_file) {
  const std::string name = result_file.string() + ".lock";
  Fd fd(::open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!fd) return fail_errno("create " + name, errno);
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) return fd;
  if (errno != EWOULDBLOCK) return fail_errno("lock " + name, errno);
  return fail(Fault::busy, fmt::format("another marathon is judging into {}: wait for it, or name "
                                       "another result file",
                                       result_file.string()));
}

Result<std::map<std::string, std::string>> contents_of(const PackedCandidate& packed,
                                                       const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& [path, hash] : packed.files) files[path] = TRY(read_file(folder / path));
  return files;
}

class PackedJudge {
 public:
  PackedJudge(const PackedJob& job, const StageSink& stage, std::stop_token stop)
      : job_(job),
        stage_(stage),
        stop_(std::move(stop)),
        own_executor_(job.executor ? nullptr : make_local_executor()),
        executor_(job.executor ? *job.executor : *own_executor_) {}

  Result<JudgeResults> run() {
    results_.request = TRY(open_request(job_.request_folder));
    hash_ = request_hash(results_.request);
    const Fd lock = TRY(lock_beside(job_.result_file));
    TRY(read_known());
    const size_t count = results_.request.candidates.size();
    for (size_t i = 0; i < count; ++i) {
      const PackedCandidate& packed = results_.request.candidates[i];
      place_ =
          fmt::format("[{}/{}] {} {}", i + 1, count, short_hash(packed.candidate), packed.name);
      if (is_known(packed)) {
        say("judged before");
        continue;
      }
      TRY(judge_or_note(packed));
    }
    if (!failed_.empty())
      return fail(
          last_fault_,
          fmt::format("{} of {} candidates could not be judged; the rest is in "
                      "{}, and the same command tries them again: {}",
                      failed_.size(), count, job_.result_file.string(), fmt::join(failed_, "; ")));
    return std::move(results_);
  }

 private:
  void say(const std::string& what) const {
    if (job_.say) job_.say(place_ + "  " + what);
  }

  // What an earlier call left. Nothing else is ever overwritten.
  Status read_known() {
    const Result<std::string> text = read_file(job_.result_file, max_result_bytes);
    if (!text && text.error().fault == Fault::not_found) return {};
    Result<JudgeResults> known = results_in(text);
    const std::string name = job_.result_file.string();
    if (!known)
      return fail(known.error().fault,
                  fmt::format("{} is left as it is ({}): name another result file", name,
                              known.error().what));
    if (request_hash(known->request) != hash_)
      return fail(Fault::invalid, fmt::format("{} holds the results of another request ({}, task "
                                              "{}): name another result file",
                                              name, short_hash(request_hash(known->request)),
                                              known->request.task_name));
    results_.judged = std::move(known->judged);
    return {};
  }

  static Result<JudgeResults> results_in(const Result<std::string>& text) {
    return judge_results_from(TRY(parse_json(TRY(Result<std::string>(text)))));
  }

  // A quick look does not stand for a full judgement.
  bool is_known(const PackedCandidate& packed) const {
    const JudgedCandidate* judged = find_judged(results_, packed.candidate);
    return judged && (!judged->quick || job_.how.effort == Effort::quick);
  }

  // A failure of ours at one candidate does not cost the others theirs; a second in a row does.
  Status judge_or_note(const PackedCandidate& packed) {
    const Status judged = judge_one(packed);
    if (judged) {
      in_a_row_ = 0;
      return {};
    }
    const Error& error = judged.error();
    if (error.fault == Fault::cancelled || stop_.stop_requested())
      return fail(Fault::cancelled,
                  fmt::format("stopped: {} of {} candidates have a verdict in {}; the same command "
                              "goes on from there",
                              results_.judged.size(), results_.request.candidates.size(),
                              job_.result_file.string()));
    if (error.fault == Fault::no_space || error.fault == Fault::corrupt || ++in_a_row_ == 2)
      return fail(error.fault,
                  fmt::format("{} could not be judged: {}. What was judged so far is in {}; when "
                              "that is mended, the same command goes on from there",
                              place_, error.what, job_.result_file.string()));
    say("could not be judged: " + error.what);
    failed_.push_back(packed.name + ": " + error.what);
    last_fault_ = error.fault;
    return {};
  }

  Status judge_one(const PackedCandidate& packed) {
    TRY(measure_noise_once());
    const EvaluationRequest request = request_for(packed);
    Result<Verdict> verdict = executor_.evaluate(request, stage_, stop_);
    for (int again = 1; again < tries_of_one && !verdict && passes(verdict.error().fault) &&
                        !stop_.stop_requested();
         ++again)
      verdict = executor_.evaluate(request, stage_, stop_);
    if (!verdict) return tl::unexpected(verdict.error());
    // What was judged is what was packed, not what somebody wrote there meanwhile.
    TRY(open_request(job_.request_folder));
    TRY(keep(packed, std::move(*verdict)));
    return {};
  }

  EvaluationRequest request_for(const PackedCandidate& packed) const {
    EvaluationRequest request = job_.how;
    request.task_folder = task_folder(job_.request_folder);
    request.candidate_folder = candidate_folder(job_.request_folder, packed.candidate);
    if (results_.request.incumbent)
      request.incumbent_folder = incumbent_folder(job_.request_folder);
    if (noise_) request.noise = *noise_;
    return request;
  }

  Status keep(const PackedCandidate& packed, Verdict verdict) {
    JudgedCandidate judged;
    judged.request = hash_;
    judged.task_hash = results_.request.task_hash;
    judged.candidate = packed.candidate;
    if (results_.request.incumbent) judged.incumbent = results_.request.incumbent->candidate;
    judged.name = packed.name;
    judged.note = packed.note;
    judged.category = packed.category;
    judged.quick = job_.how.effort == Effort::quick;
    judged.files =
        TRY(contents_of(packed, candidate_folder(job_.request_folder, packed.candidate)));
    judged.verdict = std::move(verdict);
    const std::string said =
        is_measured(judged.verdict.kind)
            ? fmt::format("{}  {:.3f} ({:.3f}–{:.3f}) over the baseline",
                          to_string(judged.verdict.kind), judged.verdict.speedup.value,
                          judged.verdict.speedup.low, judged.verdict.speedup.high)
            : fmt::format("{}  {}", to_string(judged.verdict.kind),
                          judged.verdict.reasons.empty() ? "" : judged.verdict.reasons.front());
    JudgeResults renewed = results_;
    std::erase_if(renewed.judged,
                  [&](const JudgedCandidate& old) { return old.candidate == judged.candidate; });
    renewed.judged.push_back(std::move(judged));
    TRY(write_file_durable(job_.result_file, dump_json_pretty(to_json(renewed)) + "\n"));
    results_ = std::move(renewed);
    say(said);
    return {};
  }

  // `faster` must exceed what the baseline shows against itself on this machine.
  Status measure_noise_once() {
    if (noise_ || job_.executor || job_.how.effort == Effort::quick) return {};
    EvaluationRequest request = job_.how;
    request.task_folder = task_folder(job_.request_folder);
    const LoadedTask task = TRY(load_task(request.task_folder));
    if (task.task.kind != TaskKind::kernel) return {};
    request.candidate_folder = request.task_folder / task.task.files.start;
    const NoiseReport noise = TRY(measure_or_assume_noise(request, stop_));
    noise_ = noise.noise;
    if (job_.say)
      job_.say(fmt::format("noise of this machine ± {:.2f} %{}: a gain must exceed it",
                           100 * *noise_,
                           noise.assumed.empty() ? "" : " (assumed: it was never quiet)"));
    return {};
  }

  const PackedJob& job_;
  const StageSink& stage_;
  std::stop_token stop_;
  std::unique_ptr<Executor> own_executor_;
  Executor& executor_;
  JudgeResults results_;
  std::string hash_, place_;
  std::optional<double> noise_;
  std::vector<std::string> failed_;
  Fault last_fault_ = Fault::system;
  int in_a_row_ = 0;
};

}  // namespace

Result<JudgeResults> judge_packed(const PackedJob& job, const StageSink& stage,
                                  std::stop_token stop) {
  return PackedJudge(job, stage, std::move(stop)).run();
}

}  // namespace marathon
