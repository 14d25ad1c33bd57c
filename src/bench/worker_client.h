// The judge's side of one worker: start it, open a window, stop it, believe nothing that it says.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "base/process.h"
#include "base/sandbox.h"
#include "bench/buffers.h"
#include "bench/protocol.h"
#include "core/verdict.h"

namespace marathon {

struct WorkerOptions {
  std::filesystem::path program, library, temp_folder;
  int core = -1;
  bool apart = false;  // the judge has another core than the worker: it need not sleep
  bool unsafe_no_sandbox = false;
  double load_timeout_s = 20;
};

// How a worker failed the judge: a verdict kind and a sentence.
struct WorkerFailure {
  VerdictKind kind = VerdictKind::crashed;
  std::string why;
};

struct WindowTimes {
  int64_t wall_ns = 0;  // from asking to the answer
  int64_t cpu_ns = 0;   // of the worker's process, from standing still until it
                        // stands still again
};

// A worker stands still (SIGSTOP) at all times but inside of ask_workspace and run: what it may
// read or write is touched by the judge only while it cannot look.
class Worker {
 public:
  // Makes its arenas, starts it and waits until the library is loaded. An Error when it could not
  // be started and jailed: that is ours. A library that does not load is the candidate's: each call
  // of the worker then returns that failure.
  static Result<Worker> start(const WorkerOptions& options, int64_t input_bytes,
                              int64_t output_bytes);
  Worker(Worker&&) noexcept = default;
  Worker& operator=(Worker&&) = delete;

  const Arena& inputs() const { return inputs_; }
  const Arena& outputs() const { return outputs_; }
  SandboxLevel level() const { return level_; }

  std::optional<WorkerFailure> ask_workspace(const std::vector<int64_t>& dims, int64_t& bytes);
  // One call on each of the layout's sets; `sets` 0: an empty window. SIGKILL after `limit_s`.
  std::optional<WorkerFailure> run(const std::vector<int64_t>& dims, const Layout& layout,
                                   const ShapeSizes& sizes, int32_t sets, double limit_s,
                                   WindowTimes& times);

 private:
  Worker(Process process, Fd channel, Arena inputs, Arena outputs, const WorkerOptions& options)
      : process_(std::move(process)),
        channel_(std::move(channel)),
        inputs_(std::move(inputs)),
        outputs_(std::move(outputs)),
        options_(options) {}

  Status wait_for_jail();
  void wait_for_load();
  ssize_t receive(int64_t deadline_ns, WorkerReply& reply);
  std::optional<WorkerFailure> wake();
  std::optional<WorkerFailure> stand_still();
  std::optional<WorkerFailure> after_death(const std::string& doing);
  std::optional<WorkerFailure> exchange(double limit_s, WorkerReply& reply);
  void fill_request(const std::vector<int64_t>& dims, const Layout& layout,
                    const ShapeSizes& sizes);

  Process process_;
  Fd channel_;
  Arena inputs_, outputs_;
  WorkerOptions options_;
  std::unique_ptr<WorkerRequest> request_ = std::make_unique<WorkerRequest>();
  std::optional<WorkerFailure> dead_;  // what every further call returns
  bool urgent_ = false;
  SandboxLevel level_ = SandboxLevel::none;
  uint64_t secret_ = 0, nonce_ = 0;
  int64_t cpu_at_rest_ns_ = 0;
};

}  // namespace marathon
