// marathon-worker cuda: the candidate's host code, in the jail. It runs on decoys and leaves plans;
// before a real input is written it is gone.
#include <dlfcn.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "bench/cuda/capture_server.h"
#include "bench/cuda/gpu_jail.h"
#include "bench/protocol.h"
#include "bench/worker.h"

namespace marathon {

namespace {

struct Arguments {
  std::string lib, temp;
  bool require_full = true;
};

[[noreturn]] void die(const std::string& why) {
  std::fprintf(stderr, "marathon-worker: %s\n", why.c_str());
  std::fflush(stderr);
  ::_exit(worker_gave_up);
}

Arguments parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 0; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--lib" && i + 1 < argc)
      arguments.lib = argv[++i];
    else if (word == "--temp" && i + 1 < argc)
      arguments.temp = argv[++i];
    else if (word == "--unsafe-no-sandbox")
      arguments.require_full = false;
    else
      die("usage: marathon-worker cuda --lib FILE --temp DIR [--unsafe-no-sandbox]");
  }
  return arguments;
}

CandidateEntries load(const std::string& lib) {
  void* handle = ::dlopen(lib.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) die(std::string("load: ") + ::dlerror());
  CandidateEntries entries;
  entries.run = reinterpret_cast<int (*)(const MarathonArgs*)>(::dlsym(handle, "marathon_run"));
  entries.workspace = reinterpret_cast<int64_t (*)(const int64_t*, int64_t)>(
      ::dlsym(handle, "marathon_workspace_bytes"));
  if (!entries.run) die("it exports no marathon_run (extern \"C\", see marathon_kernel.h)");
  return entries;
}

}  // namespace

int worker_cuda_main(int argc, char** argv) {
  const Arguments arguments = parse(argc, argv);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  Jail jail = gpu_jail(arguments.temp);
  jail.read_execute.emplace_back(arguments.lib);
  if (const char* fake = std::getenv("MARATHON_CUDA_DRIVER")) jail.read_execute.emplace_back(fake);
  const Result<SandboxStatus> status = enter_jail(jail, arguments.require_full);
  if (!status) die("jail: " + status.error().what);
  Channel channel((Fd(gpu_channel_fd)));
  const Status told = channel.send({{"jailed", std::string(to_string(status->level))}});
  if (!told) die(told.error().what);
  const CandidateEntries entries = load(arguments.lib);
  const Status served = serve_captures(entries, std::move(channel));
  if (!served) die(served.error().what);
  // No destructors: the candidate's are not asked.
  ::_exit(0);
}

}  // namespace marathon
