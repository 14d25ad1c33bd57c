#include "bench/cuda/capture_server.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "base/file.h"
#include "bench/cuda/capture.h"
#include "bench/cuda/memory.h"
#include "bench/cuda/replay_server.h"

namespace marathon {

using namespace cuda;

namespace {

constexpr double patience_s = 3600;  // the judge has its own limits and kills
constexpr int64_t max_cubin_bytes = 64LL << 20;

std::vector<int64_t> whole_numbers(const Json& json, const char* key) {
  std::vector<int64_t> numbers;
  if (!json.contains(key) || !json.at(key).is_array()) return numbers;
  for (const Json& number : json.at(key))
    numbers.push_back(number.is_number_integer() ? number.get<int64_t>() : 0);
  return numbers;
}

// One buffer set of one shape, as the candidate sees it.
struct Call {
  std::vector<void*> tensors;
  std::vector<std::string> host_bytes;
  std::vector<const void*> host;
  void* workspace = nullptr;
};

class CaptureServer {
 public:
  CaptureServer(const CandidateEntries& entries, Channel channel)
      : entries_(entries), channel_(std::move(channel)) {}

  Status serve() {
    for (;;) {
      Result<Message> message = channel_.receive(patience_s);
      if (!message && message.error().fault == Fault::not_found) return {};
      if (!message) return tl::unexpected(message.error());
      const std::string what = json_string(*message->body, "do");
      if (what == "quit") return {};
      current_request() = dump_json(*message->body);
      Result<Json> answer = answer_to(what, *message);
      if (!answer) {
        answer = Json{{"fault", to_string(answer.error().fault)}, {"error", answer.error().what}};
      }
      TRY(channel_.send(*answer));
    }
  }

 private:
  Result<Json> answer_to(const std::string& what, Message& message) {
    if (what == "workspace") return workspace(*message.body);
    if (what == "map") return map(message);
    if (what == "plan") return plan(*message.body);
    if (!entries_.is_trusted) return fail(Fault::invalid, "unknown request");
    return answer_of_replayer(*replayer_, what, *message.body);
  }

  Result<Json> workspace(const Json& body) {
    const std::vector<int64_t> dims = whole_numbers(body, "dims");
    if (!entries_.workspace) return Json{{"bytes", 0}};
    return Json{{"bytes", entries_.workspace(dims.data(), static_cast<int64_t>(dims.size()))}};
  }

  // Where the judge wishes it, else where there is room.
  Result<DeviceArena> import_arena(int fd, int64_t bytes, uint64_t wish) {
    Result<DeviceArena> arena = DeviceArena::import(gpu_, fd, bytes, wish, false);
    if (arena || arena.error().fault != Fault::retry) return arena;
    return DeviceArena::import(gpu_, fd, bytes, 0, false);
  }

  Result<Json> map(Message& message) {
    gpu_ = TRY(open_gpu(static_cast<int>(json_int(*message.body, "gpu"))));
    const Json& arenas = message.body->at("arenas");
    if (arenas.size() != message.descriptors.size())
      return fail(Fault::invalid, "an arena without a descriptor");
    Json addresses = Json::array();
    for (size_t i = 0; i < arenas.size(); ++i) {
      const uint64_t wish = static_cast<uint64_t>(json_int(arenas[i], "address"));
      const int64_t bytes = json_int(arenas[i], "bytes");
      arenas_.push_back(TRY(import_arena(message.descriptors[i].get(), bytes, wish)));
      addresses.push_back(arenas_.back().address());
      plan_arenas_.push_back({arenas_.back().address(), bytes});
    }
    TRY(gpu_.driver->ok(gpu_.driver->cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING),
                        "make a stream"));
    if (entries_.is_trusted) {
      const std::string image =
          TRY(read_file(json_string(*message.body, "judge_cubin"), max_cubin_bytes));
      replayer_.emplace(TRY(Replayer::make(gpu_, {}, image)));
    }
    return Json{{"addresses", addresses}};
  }

  // Where the judge says "arena 1, offset 4096", the candidate sees an address.
  Result<uint64_t> address_of(const Json& place) const {
    const int64_t arena = json_int(place, "arena", -1), offset = json_int(place, "offset", -1);
    if (arena < 0 || arena >= static_cast<int64_t>(plan_arenas_.size()) || offset < 0)
      return fail(Fault::invalid, "a place outside of the arenas");
    return plan_arenas_[static_cast<size_t>(arena)].address + static_cast<uint64_t>(offset);
  }

  Result<Call> call_of(const Json& set) const {
    Call call;
    for (const Json& place : set.at("tensors"))
      call.tensors.push_back(reinterpret_cast<void*>(TRY(address_of(place))));
    call.workspace = reinterpret_cast<void*>(TRY(address_of(set.at("workspace"))));
    call.host_bytes.resize(call.tensors.size());
    call.host.resize(call.tensors.size(), nullptr);
    for (const Json& host : set.at("host")) {
      const size_t tensor = static_cast<size_t>(json_int(host, "tensor"));
      if (tensor >= call.tensors.size()) return fail(Fault::invalid, "no such tensor");
      for (const Json& word : host.at("bytes"))
        call.host_bytes[tensor] += static_cast<char>(word.get<int>());
      call.host[tensor] = call.host_bytes[tensor].data();
    }
    return call;
  }

  Status run(const Call& call, const std::vector<int64_t>& dims, int64_t workspace_bytes) {
    MarathonArgs args = {};
    args.abi = 1;
    args.dim_count = static_cast<int64_t>(dims.size());
    args.dims = dims.data();
    args.tensor_count = static_cast<int64_t>(call.tensors.size());
    args.tensors = call.tensors.data();
    args.workspace = call.workspace;
    args.workspace_bytes = workspace_bytes;
    args.stream = stream_;
    args.host = call.host.data();
    if (const int code = entries_.run(&args); code != 0)
      return fail(Fault::invalid, fmt::format("marathon_run returned {}", code));
    return {};
  }

  Result<CUgraph> capture(const Call& call, const std::vector<int64_t>& dims,
                          int64_t workspace_bytes) {
    const Driver& driver = *gpu_.driver;
    TRY(driver.ok(driver.cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
                  "begin to capture"));
    const Status ran = run(call, dims, workspace_bytes);
    CUgraph graph = nullptr;
    const Status captured =
        driver.ok(driver.cuStreamEndCapture(stream_, &graph),
                  "capture the call (no synchronising call, no allocation, no work on streams that "
                  "are not joined, nothing on the default stream)");
    if (!ran) return tl::unexpected(ran.error());
    if (!captured) return fail(Fault::invalid, captured.error().what);
    return graph;
  }

  // Once on decoys as it is (what loads lazily is loaded then), then one graph a set.
  Result<Json> plan(const Json& body) {
    const std::vector<int64_t> dims = whole_numbers(body, "dims");
    const int64_t workspace_bytes = json_int(body, "workspace_bytes");
    Plan plan;
    plan.arenas = plan_arenas_;
    std::vector<CUgraph> graphs;
    bool first = true;
    for (const Json& set : body.at("sets")) {
      const Call call = TRY(call_of(set));
      if (first) {
        TRY(run(call, dims, workspace_bytes));
        TRY(gpu_.driver->ok(gpu_.driver->cuStreamSynchronize(stream_), "run it on decoys"));
        TRY(gpu_.driver->ok(gpu_.driver->cuCtxSynchronize(), "run it on decoys"));
      }
      first = false;
      graphs.push_back(TRY(capture(call, dims, workspace_bytes)));
      if (!entries_.is_trusted)
        plan.graphs.push_back(TRY(plan_of_graph(*gpu_.driver, graphs.back(), loaded_images())));
    }
    // What is trusted may launch what a plan cannot hold (kernels of a library): it stays here.
    if (entries_.is_trusted)
      TRY(replayer_->add_captured(json_int(body, "shape"), graphs, replay_memory_of(body)));
    for (CUgraph graph : graphs) gpu_.driver->cuGraphDestroy(graph);
    if (entries_.is_trusted) return Json{{"planned", graphs.size()}};
    const std::string file = json_string(body, "file");
    TRY(write_file(file, dump_json(to_json(plan))));
    return Json{{"planned", plan.graphs.size()}};
  }

  const CandidateEntries& entries_;
  Channel channel_;
  Gpu gpu_;
  std::vector<DeviceArena> arenas_;
  std::vector<PlanArena> plan_arenas_;
  CUstream stream_ = nullptr;
  std::optional<Replayer> replayer_;
};

}  // namespace

std::string& current_request() {
  static std::string request;
  return request;
}

std::map<CUfunction, std::string>& loaded_images() {
  static std::map<CUfunction, std::string> images;
  return images;
}

Status serve_captures(const CandidateEntries& entries, Channel channel) {
  return CaptureServer(entries, std::move(channel)).serve();
}

}  // namespace marathon
