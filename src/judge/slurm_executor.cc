// Runs the whole judge elsewhere: a request file in, a result file out, over a folder that both
// sides see.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "judge/build.h"
#include "judge/judge.h"

namespace marathon {

namespace {

constexpr double job_limit_s = 24 * 3600;

class SlurmExecutor : public Executor {
 public:
  explicit SlurmExecutor(std::vector<std::string> command) : command_(std::move(command)) {}

  Result<Verdict> evaluate(const EvaluationRequest& request, const StageSink& stage,
                           std::stop_token stop) override {
    const std::filesystem::path folder = request.result_folder;
    if (folder.empty())
      return fail(Fault::invalid,
                  "an evaluation elsewhere needs a result_folder that both machines see");
    TRY(make_folders(folder));
    const std::filesystem::path request_file = folder / "request.json",
                                result_file = folder / "result.json";
    TRY(write_file_durable(request_file, dump_json(to_json(request))));
    ProcessSpec spec;
    spec.argv = command_;
    const std::vector<std::string> judge = {TRY(helper_program("marathon")).string(),
                                            "judge",
                                            "--request",
                                            request_file.string(),
                                            "--result",
                                            result_file.string()};
    spec.argv.insert(spec.argv.end(), judge.begin(), judge.end());
    spec.environment = clean_environment(folder);
    spec.timeout_s = job_limit_s;
    TRY(stage("queue", fmt::format("{} …", command_.front()), 0));
    const ProcessResult result = TRY(run_process(spec, stop));
    if (result.exit_code != 0) {
      return fail(Fault::retry, fmt::format("{} failed (exit {}): {}", command_.front(),
                                            result.exit_code, result.err.substr(0, 500)));
    }
    return verdict_from_json(TRY(parse_json(TRY(read_file(result_file)))));
  }

 private:
  std::vector<std::string> command_;
};

}  // namespace

std::unique_ptr<Executor> make_slurm_executor(std::vector<std::string> command) {
  return std::make_unique<SlurmExecutor>(std::move(command));
}

}  // namespace marathon
