// libmarathon_torch.so: what worker.py loads. Mapping, capture, replay and timing stay in C++; Python
// only runs the module's own code when it is called back.
#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "bench/cuda/capture_server.h"
#include "bench/cuda/gpu_jail.h"
#include "bench/protocol.h"

using namespace marathon;

extern "C" {

// Enters the jail of a candidate and says so to the judge. `folder`: the candidate's, read only;
// `temp`: its own. Returns 0, or worker_gave_up after saying why on standard error.
int marathon_torch_jail(const char* folder, const char* temp, int require_full) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  Jail jail = gpu_jail(temp);
  jail.read_only.emplace_back(folder);
  jail.read_only.emplace_back("/etc");
  // Triton starts ptxas and the C compiler when it makes a kernel.
  jail.allow_fork = jail.allow_exec = true;
  if (const char* fake = std::getenv("MARATHON_CUDA_DRIVER")) jail.read_execute.emplace_back(fake);
  const Result<SandboxStatus> status = enter_jail(jail, require_full != 0);
  if (!status) {
    std::fprintf(stderr, "marathon worker: jail: %s\n", status.error().what.c_str());
    return worker_gave_up;
  }
  const Channel channel((Fd(::dup(gpu_channel_fd))));
  const Status told = channel.send({{"jailed", std::string(to_string(status->level))}});
  return told ? 0 : worker_gave_up;
}

// Until the judge says quit. The callbacks have the signatures of marathon_kernel.h.
int marathon_torch_serve(int (*run)(const MarathonArgs*),
                         int64_t (*workspace)(const int64_t*, int64_t), int is_trusted) {
  CandidateEntries entries;
  entries.run = run;
  entries.workspace = workspace;
  entries.is_trusted = is_trusted != 0;
  const Status served = serve_captures(entries, Channel(Fd(gpu_channel_fd)));
  if (served) return 0;
  std::fprintf(stderr, "marathon worker: %s\n", served.error().what.c_str());
  return worker_gave_up;
}

// The judge's message that is being answered; valid until the callback returns.
const char* marathon_torch_request() { return current_request().c_str(); }

// Triton has loaded a kernel: its function's handle and the SHA-256 of the cubin it came from.
void marathon_torch_loaded(uint64_t function, const char* image) {
  loaded_images()[reinterpret_cast<cuda::CUfunction>(function)] = image;
}

}  // extern "C"
