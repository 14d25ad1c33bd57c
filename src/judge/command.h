// Inside of a command task: its workspace in the jail, the figure in its output, two sets of
// samples compared. Inside of judge/ only.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/process.h"
#include "judge/bench_call.h"

namespace marathon {

// ---- workspace (command_workspace.cc)

struct StepResult {
  ProcessResult process;
  // A frozen file that was touched, or the disk filled: what was done, in a sentence.
  std::optional<std::string> broken_rule;
  bool disk_filled = false;
};

// One implementation's scratch copy: the start's files, then its own editable ones, then the
// frozen ones of the task, put back before each step.
class Workspace {
 public:
  Workspace(const LoadedTask& task, const EvaluationRequest& request, std::stop_token stop);

  // Error invalid when the files break a rule.
  Status open(const std::vector<SourceFile>& editable, const std::filesystem::path& from);
  // `output_file` (optional) gets all that it says, up to 16 MB.
  Result<StepResult> step(const std::vector<std::string>& argv,
                          const std::filesystem::path& output_file = {});
  // Keeps what the build left; put_back() returns to it, so that neither the check nor an earlier
  // measurement can leave anything for the next one. False: too large to be kept.
  Result<bool> keep();
  Status put_back();

  const std::filesystem::path& folder() const { return work_; }

 private:
  struct FrozenFile;
  Status write_parameters(const std::vector<SourceFile>& editable);
  Result<std::vector<FrozenFile>> put_frozen_back();
  Jail jail() const;

  const LoadedTask& task_;
  const EvaluationRequest& request_;
  std::stop_token stop_;
  std::optional<TempFolder> scratch_;
  std::filesystem::path work_;
  std::vector<std::string> environment_;
  bool kept_ = false;
};

// Makes `folder`/`relative` a place where a file can be written: real folders above it, nothing at
// it. What a candidate left there, links above all, is taken away and never followed.
Status clear_place(const std::filesystem::path& folder, const std::filesystem::path& relative);

// ---- figures (command_metric.cc)

// The figure in measure's output. Error invalid says what was looked for. A candidate's own output
// may hold a line that looks like the figure: two different figures are none.
Result<double> metric_in(const CommandSpec& command, const std::string& out);

// How much better the candidate is: above 1 when it is better, whatever the direction.
// `paired`: the i-th samples were taken one after the other.
Interval gain_of(const CommandSpec& command, const std::vector<double>& other,
                 const std::vector<double>& own, bool paired);

// Nothing varies: neither does the ratio, and measuring again would tell nothing.
bool is_constant(const std::vector<double>& samples);

}  // namespace marathon
