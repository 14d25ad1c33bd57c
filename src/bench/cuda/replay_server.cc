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

}  // namespace

std::vector<std::vector<AddressRange>> poisoned_of(const Json& body) {
  std::vector<std::vector<AddressRange>> poisoned;
  for (const Json& set : body.at("poisoned")) {
    poisoned.emplace_back();
    for (const Json& range : set) {
      poisoned.back().push_back({static_cast<uint64_t>(json_int(range, "address")),
                                 json_int(range, "bytes")});
    }
  }
  return poisoned;
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
