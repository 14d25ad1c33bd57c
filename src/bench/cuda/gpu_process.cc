#include "bench/cuda/gpu_process.h"

#include <fmt/format.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/json.h"

namespace marathon {

namespace {

constexpr double death_limit_s = 10, knock_s = 0.05, look_s = 0.001;
constexpr int64_t kept_bytes = 8192, kept_of_tool_bytes = 1 << 20;

// Nothing of ours but what finds the GPU and says how modules are loaded.
std::vector<std::string> environment_of(const GpuProcessOptions& options) {
  const std::string temp = options.temp_folder.string();
  std::vector<std::string> environment = {"LANG=C.UTF-8",
                                          "TZ=UTC",
                                          "HOME=" + temp,
                                          "TMPDIR=" + temp,
                                          "TRITON_CACHE_DIR=" + temp + "/triton",
                                          "CUDA_CACHE_PATH=" + temp + "/cuda",
                                          "CUDA_MODULE_LOADING=EAGER",
                                          "PYTHONDONTWRITEBYTECODE=1"};
  for (const char* name : {"PATH", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES", "PYTHONPATH",
                           "MARATHON_CUDA_DRIVER", "MARATHON_FAKE_CUDA"}) {
    if (const char* value = std::getenv(name))
      environment.push_back(std::string(name) + "=" + value);
  }
  return environment;
}

// The child's, or the sentence of the tool that ended without it.
Result<Channel> wait_at(const Door& door, Process& process, double limit_s) {
  const int64_t until_us = monotonic_us() + static_cast<int64_t>(limit_s * 1e6);
  while (monotonic_us() < until_us) {
    if (std::optional<Channel> came = TRY(door.wait(knock_s))) return std::move(*came);
    if (!TRY(process.wait(look_s))) continue;
    const ProcessResult& result = process.result();
    return fail(Fault::system, "it ended before the replayer began: " + result.out + result.err);
  }
  return fail(Fault::timeout, fmt::format("it did not start the replayer in {:.0f} s", limit_s));
}

// invalid: what it wants to do is not allowed or not possible. A full or broken memory is nobody's
// doing; anything else is a lost context.
VerdictKind kind_of(const std::string& fault, const std::string& what) {
  if (fault == to_string(Fault::invalid)) return VerdictKind::rule_broken;
  const bool machine = fault == to_string(Fault::no_space) ||
                       what.find("CUDA_ERROR_ECC_UNCORRECTABLE") != std::string::npos;
  return machine ? VerdictKind::ambiguous : VerdictKind::crashed;
}

}  // namespace

Result<GpuProcess> GpuProcess::start_under_tool(const GpuProcessOptions& options,
                                                ProcessSpec spec) {
  const std::filesystem::path name = options.temp_folder / "channel";
  const Door door = TRY(Door::open(name));
  spec.argv.insert(spec.argv.end(), {"--socket", name.string()});
  spec.keep_bytes = kept_of_tool_bytes;
  Process process = TRY(Process::start(spec));
  Result<Channel> channel = wait_at(door, process, options.start_limit_s);
  std::error_code ignored;
  std::filesystem::remove(name, ignored);
  if (!channel) return tl::unexpected(channel.error());
  return GpuProcess(std::move(process), std::move(*channel));
}

Result<GpuProcess> GpuProcess::start(const GpuProcessOptions& options) {
  ProcessSpec spec;
  spec.argv = options.argv;
  spec.folder = options.temp_folder;
  spec.environment = environment_of(options);
  spec.keep_bytes = kept_bytes;
  if (options.under_tool) return start_under_tool(options, std::move(spec));
  Channel::Pair pair = TRY(Channel::pair());
  spec.pass_fds = {{pair.theirs.fd(), gpu_channel_fd}};
  GpuProcess made(TRY(Process::start(spec)), std::move(pair.ours));
  // Its end is the child's alone, so that its death is seen at once.
  { const Channel closed = std::move(pair.theirs); }
  if (!options.jailed) return made;
  const Result<Message> hello = made.channel_.receive(options.start_limit_s);
  if (hello && hello->body->contains("jailed")) {
    made.level_ = json_string(*hello->body, "jailed");
    return made;
  }
  made.end();
  const std::string& said = made.process_.result().err;
  return fail(Fault::system, "a GPU worker could not be started in its jail: " +
                                 (said.empty() ? "it did not answer" : said));
}

WorkerFailure GpuProcess::failure_of(const Error& error, double limit_s) {
  if (error.fault == Fault::timeout) {
    const bool died = end();
    return {VerdictKind::timed_out,
            fmt::format("it took longer than {:.1f} s{}", limit_s,
                        died ? "" : ", and the GPU does not let go of it (gpu_wedged)")};
  }
  end();
  const ProcessResult& result = process_.result();
  std::string said = result.err.empty() ? result.out : result.err;
  while (!said.empty() && said.back() == '\n') said.pop_back();
  if (result.signal != 0 && result.signal != SIGKILL) {
    return {VerdictKind::crashed,
            fmt::format("signal {} ({}){}{}", result.signal, strsignal(result.signal),
                        said.empty() ? "" : ": ", said)};
  }
  return {VerdictKind::crashed, said.empty() ? "it ended by itself: " + error.what : said};
}

GpuProcess::Answer GpuProcess::ask(const Json& body, double limit_s,
                                   const std::vector<int>& descriptors) {
  tell(body, descriptors);
  return hear(limit_s);
}

void GpuProcess::tell(const Json& body, const std::vector<int>& descriptors) {
  if (dead_) return;
  if (const Status sent = channel_.send(body, descriptors); !sent)
    dead_ = failure_of(sent.error(), 0);
}

GpuProcess::Answer GpuProcess::hear(double limit_s) {
  if (dead_) return {nullptr, dead_};
  Result<Message> answer = channel_.receive(limit_s);
  if (!answer) {
    dead_ = failure_of(answer.error(), limit_s);
    return {nullptr, dead_};
  }
  if (answer->body->contains("error")) {
    const std::string fault = json_string(*answer->body, "fault"),
                      what = json_string(*answer->body, "error");
    const VerdictKind kind = kind_of(fault, what);
    if (kind != VerdictKind::rule_broken) dead_ = WorkerFailure{kind, what};
    return {nullptr, WorkerFailure{kind, what}};
  }
  return {std::move(answer->body), std::nullopt};
}

ProcessResult GpuProcess::finish(double limit_s) {
  // Also when it answered with a failure: it is there, and a tool around it reports at its end.
  (void)channel_.send({{"do", "quit"}});
  const Result<bool> ended = process_.wait(limit_s);
  const bool in_time = ended && *ended;
  if (!in_time) process_.kill_and_sweep();
  ProcessResult result = process_.result();
  result.timed_out = !in_time;
  return result;
}

bool GpuProcess::end() {
  ::kill(process_.pid(), SIGKILL);
  const Result<bool> ended = process_.wait(death_limit_s);
  if (!ended || !*ended) return false;
  process_.kill_and_sweep();
  return true;
}

}  // namespace marathon
