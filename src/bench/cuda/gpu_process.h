// The judge's side of one GPU process (a worker or a replayer): ask, wait, kill.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "base/process.h"
#include "bench/cuda/channel.h"
#include "bench/worker_client.h"

namespace marathon {

struct GpuProcessOptions {
  std::vector<std::string> argv;  // argv[0]: marathon-worker, or python3
  std::filesystem::path temp_folder;
  bool jailed = true;  // it says so first; false: our own code
  double start_limit_s = 60;
  // It is started by another program (ncu, compute-sanitizer), to which argv belongs: it comes to us
  // by the name of a socket, added to argv, and not by a descriptor.
  bool under_tool = false;
};

class GpuProcess {
 public:
  // Error when it could not be started and jailed: that is ours.
  static Result<GpuProcess> start(const GpuProcessOptions& options);
  GpuProcess(GpuProcess&&) noexcept = default;
  GpuProcess& operator=(GpuProcess&&) = delete;

  // One question, one answer. A failure of the process (it crashed, hangs, or its context is lost) is
  // the candidate's; every further question then gets the same failure.
  struct Answer {
    std::shared_ptr<Json> body;  // null after a failure
    std::optional<WorkerFailure> failure;
  };
  Answer ask(const Json& body, double limit_s, const std::vector<int>& descriptors = {});
  // The two halves of ask(), so that several processes can be at work at once.
  void tell(const Json& body, const std::vector<int>& descriptors = {});
  Answer hear(double limit_s);
  // SIGKILL; waits until the kernel has taken it down. False: it does not die (a GPU that hangs).
  bool end();
  // Tells it to end by itself, and waits; what a tool around it said and how it ended.
  ProcessResult finish(double limit_s);
  const std::string& level() const { return level_; }

 private:
  GpuProcess(Process process, Channel channel)
      : process_(std::move(process)), channel_(std::move(channel)) {}
  static Result<GpuProcess> start_under_tool(const GpuProcessOptions& options, ProcessSpec spec);
  WorkerFailure failure_of(const Error& error, double limit_s);

  Process process_;
  Channel channel_;
  std::string level_;
  std::optional<WorkerFailure> dead_;
};

}  // namespace marathon
