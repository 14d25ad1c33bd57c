// The judge's side of one worker: start it, open a window, stop it, believe nothing that it says.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "base/process.h"
#include "bench/buffers.h"
#include "bench/protocol.h"
#include "core/verdict.h"

namespace marathon {

struct WorkerOptions {
  std::filesystem::path program, library, temp_folder;
  int core = -1;
  bool unsafe_no_sandbox = false;
};

// How a worker failed the judge: a verdict kind and a sentence.
struct WorkerFailure {
  VerdictKind kind = VerdictKind::crashed;
  std::string why;
};

struct WindowTimes {
  int64_t wall_ns = 0, cpu_ns = 0;
};

class Worker {
 public:
  // `inputs` must outlive the worker. Its output arena is made here.
  static Result<Worker> start(const WorkerOptions& options, const Arena& inputs,
                              int64_t output_bytes);
  Worker(Worker&&) noexcept = default;
  Worker& operator=(Worker&&) = delete;

  const Arena& outputs() const { return outputs_; }

  // Each returns the failure, if any. The worker stands still (SIGSTOP)
  // after each call but `prepare`, in which nothing of the candidate's runs.
  std::optional<WorkerFailure> ask_workspace(const std::vector<int64_t>& dims, int64_t& bytes);
  std::optional<WorkerFailure> prepare(const std::vector<int64_t>& dims, const Layout& layout,
                                       const ShapeSizes& sizes);
  std::optional<WorkerFailure> go(int32_t sets, double timeout_s, WindowTimes& times);

 private:
  Worker(Process process, Fd channel, Arena outputs)
      : process_(std::move(process)), channel_(std::move(channel)), outputs_(std::move(outputs)) {}
  std::optional<WorkerFailure> exchange(double timeout_s, bool stop_after, WorkerReply& reply,
                                        WindowTimes* times);
  std::optional<WorkerFailure> after_death(const std::string& doing);
  std::optional<WorkerFailure> stand_still();

  Process process_;
  Fd channel_;
  Arena outputs_;
  std::unique_ptr<WorkerRequest> request_ = std::make_unique<WorkerRequest>();
  uint64_t nonce_ = 0;
  bool awake_ = true;
};

}  // namespace marathon
