// marathon-worker replay: our own code around the candidate's cubins.
#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/file.h"
#include "base/hash.h"
#include "bench/cuda/channel.h"
#include "bench/cuda/replay_server.h"
#include "bench/worker.h"

namespace marathon {

namespace {

constexpr double patience_s = 3600;
constexpr int64_t max_cubin_bytes = 256LL << 20;

class ReplayServer {
 public:
  explicit ReplayServer(Channel channel) : channel_(std::move(channel)) {}

  Status serve() {
    for (;;) {
      Result<Message> message = channel_.receive(patience_s);
      if (!message && message.error().fault == Fault::not_found) return {};
      if (!message) return tl::unexpected(message.error());
      const std::string what = json_string(*message->body, "do");
      if (what == "quit") return {};
      Result<Json> answer = answer_to(what, *message);
      if (!answer)
        answer = Json{{"fault", to_string(answer.error().fault)}, {"error", answer.error().what}};
      TRY(channel_.send(*answer));
    }
  }

 private:
  Result<Json> answer_to(const std::string& what, Message& message) {
    if (what == "open") return open(message);
    if (!replayer_) return fail(Fault::invalid, "not open yet");
    return what == "add" ? add(*message.body) : answer_of_replayer(*replayer_, what, *message.body);
  }

  Result<Json> open(Message& message) {
    gpu_ = TRY(open_gpu(static_cast<int>(json_int(*message.body, "gpu"))));
    const Json& arenas = message.body->at("arenas");
    if (arenas.size() != message.descriptors.size())
      return fail(Fault::invalid, "an arena without a descriptor");
    for (size_t i = 0; i < arenas.size(); ++i) {
      arenas_.push_back(TRY(DeviceArena::import(
          gpu_, message.descriptors[i].get(), json_int(arenas[i], "bytes"),
          static_cast<uint64_t>(json_int(arenas[i], "address")),
          json_bool(arenas[i], "read_only"))));
    }
    std::map<std::string, std::string> cubins;
    for (const Json& file : message.body->at("cubins")) {
      std::string bytes = TRY(read_file(file.get<std::string>(), max_cubin_bytes));
      std::string hash = sha256_hex(bytes);
      cubins.emplace(std::move(hash), std::move(bytes));
    }
    const std::string judge =
        TRY(read_file(json_string(*message.body, "judge_cubin"), max_cubin_bytes));
    replayer_.emplace(TRY(Replayer::make(gpu_, cubins, judge)));
    return Json{{"open", true}};
  }

  Result<Json> add(const Json& body) {
    const Plan plan = TRY(plan_from_json(
        TRY(parse_json(TRY(read_file(json_string(body, "file"), max_plan_file_bytes))))));
    TRY(replayer_->add(json_int(body, "shape"), plan, replay_memory_of(body)));
    return Json{{"added", true}};
  }

  Channel channel_;
  Gpu gpu_;
  std::vector<DeviceArena> arenas_;
  std::optional<Replayer> replayer_;
};

}  // namespace

// Under a tool: it follows what the process does until its orderly end, and has a thread of its own
// for our parent, which may be gone before us. The judge's death closes the socket.
static int replay_under_tool(const char* socket) {
  Result<Channel> channel = Channel::connect(socket);
  const Status served =
      channel ? ReplayServer(std::move(*channel)).serve() : tl::unexpected(channel.error());
  if (served) return 0;
  std::fprintf(stderr, "marathon-worker: %s\n", served.error().what.c_str());
  return 3;
}

int worker_replay_main(int argc, char** argv) {
  if (argc == 2 && std::string_view(argv[0]) == "--socket") return replay_under_tool(argv[1]);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const Status served = ReplayServer(Channel(Fd(gpu_channel_fd))).serve();
  if (served) ::_exit(0);
  std::fprintf(stderr, "marathon-worker: %s\n", served.error().what.c_str());
  std::fflush(stderr);
  ::_exit(3);
}

}  // namespace marathon
