// Runs the whole judge elsewhere: a request file in, a result file out, over a folder that both
// sides see.
#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <csignal>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/file.h"
#include "judge/build.h"
#include "judge/judge.h"

extern char** environ;  // NOLINT: the only way to see what variables there are

namespace marathon {

namespace fs = std::filesystem;

namespace {

constexpr double job_limit_s = 24 * 3600;
constexpr double grace_s = 10;  // for srun to cancel its job
// A network file system shows a new file late.
constexpr double result_wait_s = 30;
constexpr int poll_ms = 200;
constexpr int exit_invalid = 2, exit_environment = 3, exit_stopped = 130;  // of `marathon judge`

// What srun needs to find its cluster and the allocation that we may be part of; no keys.
std::vector<std::string> environment_of_job() {
  std::vector<std::string> environment = clean_environment("/tmp");
  for (char** entry = environ; entry && *entry; ++entry) {
    const std::string_view text = *entry;
    if (text.starts_with("SLURM_") || text.starts_with("MARATHON_BIN=") || text.starts_with("CXX="))
      environment.emplace_back(text);
  }
  return environment;
}

class Job {
 public:
  Job(ProcessSpec spec, std::stop_token stop) : spec_(std::move(spec)), stop_(std::move(stop)) {}

  // Ended by SIGTERM first: a job whose srun is killed would go on without it.
  Result<ProcessResult> run() {
    Process process = TRY(Process::start(spec_));
    const int64_t until_us = monotonic_us() + static_cast<int64_t>(spec_.timeout_s * 1e6);
    while (!TRY(process.wait(0.001 * poll_ms))) {
      if (!stop_.stop_requested() && monotonic_us() < until_us) continue;
      ::kill(process.pid(), SIGTERM);
      if (!TRY(process.wait(grace_s))) process.kill_and_sweep();
      if (stop_.stop_requested())
        return fail(Fault::cancelled, "stopped while " + spec_.argv[0] + " was running");
      return fail(Fault::timeout, fmt::format("{} took longer than {:.0f} h", spec_.argv[0],
                                              spec_.timeout_s / 3600));
    }
    return process.result();
  }

 private:
  ProcessSpec spec_;
  std::stop_token stop_;
};

class SlurmExecutor : public Executor {
 public:
  explicit SlurmExecutor(std::vector<std::string> command) : command_(std::move(command)) {}

  Result<Verdict> evaluate(const EvaluationRequest& request, const StageSink& stage,
                           std::stop_token stop) override {
    const fs::path folder = request.result_folder;
    if (command_.empty())
      return fail(Fault::invalid, "no command to run the judge elsewhere: want e.g. srun --gres …");
    if (folder.empty())
      return fail(Fault::invalid,
                  "an evaluation elsewhere needs a result_folder that both machines see");
    TRY(make_folders(folder));
    const fs::path request_file = folder / "request.json", result_file = folder / "result.json";
    TRY(remove_tree(result_file));  // an earlier evaluation's must never be taken for this one's
    TRY(write_file_durable(request_file, dump_json(to_json(request))));
    ProcessSpec spec;
    spec.argv = command_;
    for (const std::string& word :
         {TRY(helper_program("marathon")).string(), std::string("judge"), std::string("--request"),
          request_file.string(), std::string("--result"), result_file.string()})
      spec.argv.push_back(word);
    spec.environment = environment_of_job();
    spec.timeout_s = job_limit_s;
    TRY(stage("queue", fmt::format("{}: the judge runs elsewhere", command_.front()), 0));
    const ProcessResult result = TRY(Job(std::move(spec), stop).run());
    TRY(stage("queue", "it is back", result.wall_s));
    if (result.exit_code != 0) return job_error(result);
    return verdict_from_json(TRY(parse_json(TRY(late_file(result_file, stop)))));
  }

 private:
  // The judge's own exit codes, else a failure of what carries it.
  tl::unexpected<Error> job_error(const ProcessResult& result) const {
    const Fault fault = result.exit_code == exit_invalid       ? Fault::invalid
                        : result.exit_code == exit_environment ? Fault::system
                        : result.exit_code == exit_stopped     ? Fault::cancelled
                                                               : Fault::retry;
    const std::string_view text = result.err;
    return fail(fault, fmt::format("{} failed (exit {}, signal {}): {}", command_.front(),
                                   result.exit_code, result.signal,
                                   text.substr(text.size() - std::min<size_t>(text.size(), 500))));
  }

  static Result<std::string> late_file(const fs::path& file, const std::stop_token& stop) {
    const int64_t until_us = monotonic_us() + static_cast<int64_t>(result_wait_s * 1e6);
    while (true) {
      Result<std::string> text = read_file(file);
      if (text || text.error().fault != Fault::not_found) return text;
      if (stop.stop_requested())
        return fail(Fault::cancelled, "stopped while waiting for a result");
      if (monotonic_us() > until_us)
        return fail(Fault::retry, "the judge ended well but left no " + file.string() +
                                      ": do both machines see this folder?");
      ::poll(nullptr, 0, poll_ms);
    }
  }

  std::vector<std::string> command_;
};

}  // namespace

std::unique_ptr<Executor> make_slurm_executor(std::vector<std::string> command) {
  return std::make_unique<SlurmExecutor>(std::move(command));
}

}  // namespace marathon
