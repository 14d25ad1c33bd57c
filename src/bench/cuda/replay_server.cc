#include "bench/cuda/replay_server.h"

#include <nlohmann/json.hpp>

namespace marathon {

namespace {

Result<GpuCache> cache_of(const std::string& name) {
  if (name == "cold") return GpuCache::cold;
  if (name == "warm") return GpuCache::warm;
  if (name == "as_it_is") return GpuCache::as_it_is;
  return fail(Fault::invalid, "no cache state " + name);
}

Json json_of(const AddressRange& range) {
  return {{"address", range.address}, {"bytes", range.bytes}};
}

AddressRange range_of(const Json& json) {
  return {static_cast<uint64_t>(json_int(json, "address")), json_int(json, "bytes")};
}

}  // namespace

Json to_json(const ReplayMemory& memory) {
  Json sets = Json::array();
  for (const auto& [own, workspace, inputs] : memory.sets)
    sets.push_back({json_of(own), json_of(workspace), json_of(inputs)});
  return {{"sets", sets}, {"rest", json_of(memory.rest)}};
}

ReplayMemory replay_memory_of(const Json& body) {
  const Json& json = body.at("memory");
  ReplayMemory memory;
  for (const Json& set : json.at("sets"))
    memory.sets.push_back({range_of(set.at(0)), range_of(set.at(1)), range_of(set.at(2))});
  memory.rest = range_of(json.at("rest"));
  return memory;
}

Result<Json> answer_of_replayer(Replayer& replayer, const std::string& what, const Json& body) {
  const int64_t shape = json_int(body, "shape");
  if (what == "run") {
    std::vector<int64_t> sets;
    for (const Json& set : body.at("sets")) sets.push_back(set.get<int64_t>());
    const ReplayTimes times =
        TRY(replayer.run(shape, sets, TRY(cache_of(json_string(body, "cache"))),
                         json_int(body, "discard"), static_cast<uint64_t>(json_int(body, "seed"))));
    return Json{{"ns", times.event_ns}, {"wall_ns", times.wall_ns}};
  }
  if (what == "batch") {
    return Json{{"wall_ns", TRY(replayer.batch(shape, json_int(body, "count"),
                                               json_bool(body, "kernel")))}};
  }
  if (what == "once") {
    TRY(replayer.once(shape, json_int(body, "set")));
    return Json{{"done", true}};
  }
  if (what == "forget") {
    replayer.forget(shape);
    return Json{{"forgotten", true}};
  }
  return fail(Fault::invalid, "unknown request");
}

}  // namespace marathon
