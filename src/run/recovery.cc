// Recovery: what a process that ended left behind is brought to where the log says it is.
//
//   intent without outcome   what is done
//   turn                     asked again (loop.cc)
//   tool call                done again from known content: tools depend on the fold alone
//   (tools.cc) evaluation               judged again under its number, key and seed (here) verdict,
//   no promotion    promoted (here) workspace, commits       made again from artifacts (here)
#include <fmt/format.h>

#include <algorithm>

#include "run/driver.h"

namespace marathon {

Status Driver::settle() {
  TRY(recorder_.patiently([this] { return restore_workspace(); }, "the workspace"));
  if (state().evaluation_open) {
    const OpenEvaluation& open = *state().evaluation_open;
    TRY(recorder_.record(EvaluationRepeated{open.evaluation, open.key,
                                            "the process ended before its outcome was on record"}));
    return run_evaluation();
  }
  return settle_promotion();
}

// Only the newest verdict can lack its promotion: that event always comes right behind it.
Status Driver::settle_promotion() {
  const auto newest = std::ranges::max_element(state().attempts, {}, &Attempt::finished_sequence);
  if (newest == state().attempts.end() || newest->finished_sequence == 0) return {};
  return promote_if_due(newest->candidate);
}

Status Driver::restore_workspace() {
  TRY(workspace_.restore(state().workspace, artifacts()));
  TRY(restore_commits());
  const Attempt* best = incumbent_of(state());
  return best ? workspace_.set_best(best->commit) : Status();
}

// git is not synced at every commit. What a power cut took is made again, and is the same; what was
// pruned meanwhile stays lost, which costs a view and no fact.
Status Driver::restore_commits() {
  std::vector<std::string> all;
  for (const Attempt& attempt : state().attempts) all.push_back(attempt.commit);
  const std::vector<std::string> gone = TRY(workspace_.missing(all));
  if (gone.empty()) return {};
  for (const Attempt& attempt : state().attempts) {
    if (std::ranges::find(gone, attempt.commit) == gone.end()) continue;
    const Attempt* parent = find_attempt(state(), attempt.parent);
    const CommitParts parts{
        TRY(files_of(attempt)), attempt.candidate, parent ? parent->commit : "", attempt.number,
        fmt::format("#{} {}: {}\n", attempt.number, attempt.category, attempt.hypothesis)};
    const Result<std::string> made = workspace_.commit(parts, artifacts());
    if (!made && made.error().fault == Fault::no_space) return tl::unexpected(made.error());
    if (!made || *made != attempt.commit)
      recorder_.tell(
          fmt::format("the commit of attempt #{} could not be made again", attempt.number));
  }
  return {};
}

}  // namespace marathon
