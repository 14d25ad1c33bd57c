#include "bench/cuda/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

namespace marathon {

namespace {

constexpr char hex_digits[] = "0123456789abcdef";
constexpr size_t max_name_bytes = 4096;

std::string to_hex(const std::string& bytes) {
  std::string text;
  text.reserve(bytes.size() * 2);
  for (const char c : bytes) {
    text += hex_digits[static_cast<uint8_t>(c) >> 4];
    text += hex_digits[static_cast<uint8_t>(c) & 15];
  }
  return text;
}

int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

Result<std::string> from_hex(const std::string& text) {
  if (text.size() % 2 != 0) return fail(Fault::invalid, "plan: an odd number of hex digits");
  std::string bytes;
  bytes.reserve(text.size() / 2);
  for (size_t i = 0; i < text.size(); i += 2) {
    const int high = digit_of(text[i]), low = digit_of(text[i + 1]);
    if (high < 0 || low < 0) return fail(Fault::invalid, "plan: no hex digits");
    bytes += static_cast<char>(high * 16 + low);
  }
  return bytes;
}

// Reads fields of one object and remembers the first thing that was wrong.
class Fields {
 public:
  Fields(const Json& json, const char* what) : json_(json), what_(what) {
    if (!json.is_object()) note("is no object");
  }

  int64_t whole(const char* key, int64_t low, int64_t high, int64_t otherwise) {
    if (!json_.is_object() || !json_.contains(key)) return otherwise;
    const Json& value = json_.at(key);
    const bool fits = value.is_number_unsigned()
                          ? value.get<uint64_t>() <=
                                static_cast<uint64_t>(std::numeric_limits<int64_t>::max())
                          : value.is_number_integer();
    if (!fits) {
      note(fmt::format("has a {} that is no whole number", key));
      return otherwise;
    }
    const int64_t number = value.get<int64_t>();
    if (number < low || number > high) {
      note(fmt::format("has {} = {}, which is not in {} … {}", key, number, low, high));
      return otherwise;
    }
    return number;
  }
  std::array<int64_t, 3> three(const char* key, int64_t low, int64_t high, int64_t otherwise) {
    std::array<int64_t, 3> numbers = {otherwise, otherwise, otherwise};
    if (!json_.is_object() || !json_.contains(key)) return numbers;
    const Json& value = json_.at(key);
    if (!value.is_array() || value.size() != 3) {
      note(fmt::format("has a {} that is no list of three", key));
      return numbers;
    }
    for (size_t i = 0; i < 3; ++i) {
      if (!value[i].is_number_integer() || value[i].get<int64_t>() < low ||
          value[i].get<int64_t>() > high) {
        note(fmt::format("has a {} outside of {} … {}", key, low, high));
        return {otherwise, otherwise, otherwise};
      }
      numbers[i] = value[i].get<int64_t>();
    }
    return numbers;
  }
  bool flag(const char* key) { return json_.is_object() && json_bool(json_, key); }
  std::string text(const char* key) {
    std::string value = json_.is_object() ? json_string(json_, key) : std::string();
    if (value.empty() || value.size() > max_name_bytes) note(fmt::format("lacks a {}", key));
    return value;
  }
  const Json& list(const char* key, size_t limit) {
    static const Json none = Json::array();
    if (!json_.is_object() || !json_.contains(key)) return none;
    const Json& value = json_.at(key);
    if (!value.is_array() || value.size() > limit) {
      note(fmt::format("has a {} that is no list of at most {}", key, limit));
      return none;
    }
    return value;
  }
  void note(const std::string& trouble) {
    if (trouble_.empty()) trouble_ = fmt::format("plan: a {} {}", what_, trouble);
  }
  Status status() const {
    if (trouble_.empty()) return {};
    return fail(Fault::invalid, trouble_);
  }

 private:
  const Json& json_;
  const char* what_;
  std::string trouble_;
};

constexpr int64_t largest = std::numeric_limits<int64_t>::max();
constexpr int64_t max_extent = int64_t{1} << 40;

Json to_json(const PlanKernel& kernel) {
  Json parameters = Json::array();
  for (const PlanKernel::Parameter& parameter : kernel.parameters)
    parameters.push_back({{"offset", parameter.offset}, {"bytes", to_hex(parameter.bytes)}});
  return {{"kind", "kernel"},
          {"name", kernel.name},
          {"image", kernel.image},
          {"grid", kernel.grid},
          {"block", kernel.block},
          {"cluster", kernel.cluster},
          {"shared", kernel.dynamic_shared_bytes},
          {"max_shared", kernel.max_dynamic_shared_bytes},
          {"carveout", kernel.carveout},
          {"non_portable_cluster", kernel.non_portable_cluster},
          {"cooperative", kernel.cooperative},
          {"has_priority", kernel.has_priority},
          {"priority", kernel.priority},
          {"parameters", parameters}};
}

Json to_json(const PlanNode& node) {
  switch (node.kind) {
    case PlanNodeKind::kernel:
      return to_json(node.kernel);
    case PlanNodeKind::memset:
      return {{"kind", "memset"},
              {"address", node.memset.address},
              {"width", node.memset.width},
              {"height", node.memset.height},
              {"pitch", node.memset.pitch},
              {"element_bytes", node.memset.element_bytes},
              {"value", node.memset.value}};
    case PlanNodeKind::copy:
      return {{"kind", "copy"},
              {"from", node.copy.from},
              {"to", node.copy.to},
              {"width_bytes", node.copy.width_bytes},
              {"height", node.copy.height},
              {"depth", node.copy.depth},
              {"from_pitch", node.copy.from_pitch},
              {"from_height", node.copy.from_height},
              {"to_pitch", node.copy.to_pitch},
              {"to_height", node.copy.to_height}};
    case PlanNodeKind::empty:
      return {{"kind", "empty"}};
  }
  return {};
}

Result<PlanKernel> kernel_from(const Json& json) {
  Fields fields(json, "kernel node");
  PlanKernel kernel;
  kernel.name = fields.text("name");
  kernel.image = json_string(json, "image");
  if (kernel.image.size() > 64) fields.note("has an image that is no hash");
  kernel.grid = fields.three("grid", 1, 0x7fffffff, 1);
  kernel.block = fields.three("block", 1, 1024, 1);
  kernel.cluster = fields.three("cluster", 0, 16, 0);
  kernel.dynamic_shared_bytes = fields.whole("shared", 0, 1 << 20, 0);
  kernel.max_dynamic_shared_bytes = fields.whole("max_shared", 0, 1 << 20, 0);
  kernel.carveout = fields.whole("carveout", -1, 100, -1);
  kernel.non_portable_cluster = fields.flag("non_portable_cluster");
  kernel.cooperative = fields.flag("cooperative");
  kernel.has_priority = fields.flag("has_priority");
  kernel.priority = fields.whole("priority", -64, 64, 0);
  const Json& parameters = fields.list("parameters", max_plan_parameters);
  TRY(fields.status());
  int64_t end = 0;
  for (const Json& json_parameter : parameters) {
    Fields parameter(json_parameter, "kernel parameter");
    const int64_t offset = parameter.whole("offset", end, max_plan_parameter_bytes, end);
    const std::string text = parameter.text("bytes");
    TRY(parameter.status());
    std::string bytes = TRY(from_hex(text));
    end = offset + static_cast<int64_t>(bytes.size());
    if (end > max_plan_parameter_bytes)
      return fail(Fault::invalid, "plan: a kernel's parameters are too long");
    kernel.parameters.push_back({offset, std::move(bytes)});
  }
  return kernel;
}

// [address, address + bytes) inside one arena.
Status inside(const Plan& plan, uint64_t address, int64_t bytes, const char* what) {
  for (const PlanArena& arena : plan.arenas) {
    if (address >= arena.address && address - arena.address <= static_cast<uint64_t>(arena.bytes) &&
        bytes <= arena.bytes - static_cast<int64_t>(address - arena.address))
      return {};
  }
  return fail(Fault::invalid, fmt::format("plan: a {} of {} bytes at {:#x} is not inside of the "
                                          "judge's buffers; work on tensors and workspace only",
                                          what, bytes, address));
}

// rows × pitch and so on, without overflow: every factor is at most 2^40 and the product must be
// too.
Result<int64_t> span_bytes(int64_t width, int64_t rows, int64_t pitch) {
  if (rows <= 1) return width;
  if (pitch < width) return fail(Fault::invalid, "plan: a pitch is smaller than its row");
  if (rows > max_extent / std::max<int64_t>(pitch, 1))
    return fail(Fault::invalid, "plan: a memset or copy is too large");
  return (rows - 1) * pitch + width;
}

Result<PlanMemset> memset_from(const Json& json, const Plan& plan) {
  Fields fields(json, "memset node");
  PlanMemset memset;
  memset.address = static_cast<uint64_t>(fields.whole("address", 0, largest, 0));
  memset.width = fields.whole("width", 0, max_extent, 0);
  memset.height = fields.whole("height", 1, max_extent, 1);
  memset.pitch = fields.whole("pitch", 0, max_extent, 0);
  memset.element_bytes = fields.whole("element_bytes", 1, 4, 1);
  memset.value = static_cast<uint32_t>(fields.whole("value", 0, 0xffffffff, 0));
  if (memset.element_bytes == 3) fields.note("has elements of 3 bytes");
  TRY(fields.status());
  const int64_t bytes =
      TRY(span_bytes(memset.width * memset.element_bytes, memset.height, memset.pitch));
  TRY(inside(plan, memset.address, bytes, "memset"));
  return memset;
}

Result<PlanCopy> copy_from(const Json& json, const Plan& plan) {
  Fields fields(json, "copy node");
  PlanCopy copy;
  copy.from = static_cast<uint64_t>(fields.whole("from", 0, largest, 0));
  copy.to = static_cast<uint64_t>(fields.whole("to", 0, largest, 0));
  copy.width_bytes = fields.whole("width_bytes", 0, max_extent, 0);
  copy.height = fields.whole("height", 1, max_extent, 1);
  copy.depth = fields.whole("depth", 1, max_extent, 1);
  copy.from_pitch = fields.whole("from_pitch", 0, max_extent, 0);
  copy.from_height = fields.whole("from_height", 0, max_extent, 0);
  copy.to_pitch = fields.whole("to_pitch", 0, max_extent, 0);
  copy.to_height = fields.whole("to_height", 0, max_extent, 0);
  TRY(fields.status());
  if (copy.depth > 1 && (copy.from_height < copy.height || copy.to_height < copy.height))
    return fail(Fault::invalid, "plan: a copy's slices overlap");
  const auto rows = [&](int64_t slice_height) -> Result<int64_t> {
    if (copy.depth == 1) return copy.height;
    if (copy.depth > max_extent / std::max<int64_t>(slice_height, 1))
      return fail(Fault::invalid, "plan: a copy is too large");
    return (copy.depth - 1) * slice_height + copy.height;
  };
  const int64_t from_bytes =
      TRY(span_bytes(copy.width_bytes, TRY(rows(copy.from_height)), copy.from_pitch));
  const int64_t to_bytes =
      TRY(span_bytes(copy.width_bytes, TRY(rows(copy.to_height)), copy.to_pitch));
  TRY(inside(plan, copy.from, from_bytes, "copy from"));
  TRY(inside(plan, copy.to, to_bytes, "copy to"));
  return copy;
}

Result<PlanNode> node_from(const Json& json, const Plan& plan) {
  if (!json.is_object()) return fail(Fault::invalid, "plan: a node is no object");
  PlanNode node;
  const std::string kind = json_string(json, "kind");
  if (kind == "kernel") {
    node.kernel = TRY(kernel_from(json));
  } else if (kind == "memset") {
    node.kind = PlanNodeKind::memset;
    node.memset = TRY(memset_from(json, plan));
  } else if (kind == "copy") {
    node.kind = PlanNodeKind::copy;
    node.copy = TRY(copy_from(json, plan));
  } else if (kind == "empty") {
    node.kind = PlanNodeKind::empty;
  } else {
    return fail(Fault::invalid, "plan: no node is of the kind '" + kind.substr(0, 40) + "'");
  }
  return node;
}

Result<PlanGraph> graph_from(const Json& json, const Plan& plan) {
  Fields fields(json, "graph");
  const Json& nodes = fields.list("nodes", max_plan_nodes);
  const Json& edges = fields.list("edges", max_plan_nodes * 8);
  TRY(fields.status());
  PlanGraph graph;
  for (const Json& node : nodes) graph.nodes.push_back(TRY(node_from(node, plan)));
  const int64_t last = static_cast<int64_t>(graph.nodes.size()) - 1;
  for (const Json& json_edge : edges) {
    Fields edge(json_edge, "edge");
    PlanEdge made;
    made.from = edge.whole("from", 0, std::max<int64_t>(last, 0), 0);
    made.to = edge.whole("to", 0, std::max<int64_t>(last, 0), 0);
    made.from_port = edge.whole("from_port", 0, 2, 0);
    made.type = edge.whole("type", 0, 1, 0);
    TRY(edge.status());
    graph.edges.push_back(made);
  }
  TRY(check_order(graph));
  return graph;
}

}  // namespace

Json to_json(const Plan& plan) {
  Json arenas = Json::array(), graphs = Json::array();
  for (const PlanArena& arena : plan.arenas)
    arenas.push_back({{"address", arena.address}, {"bytes", arena.bytes}});
  for (const PlanGraph& graph : plan.graphs) {
    Json nodes = Json::array(), edges = Json::array();
    for (const PlanNode& node : graph.nodes) nodes.push_back(to_json(node));
    for (const PlanEdge& edge : graph.edges) {
      edges.push_back({{"from", edge.from},
                       {"to", edge.to},
                       {"from_port", edge.from_port},
                       {"type", edge.type}});
    }
    graphs.push_back({{"nodes", nodes}, {"edges", edges}});
  }
  return {{"plan", 1}, {"arenas", arenas}, {"graphs", graphs}};
}

Result<Plan> plan_from_json(const Json& json) {
  Fields fields(json, "plan");
  if (fields.whole("plan", 1, 1, 0) != 1) fields.note("is not of version 1");
  const Json& arenas = fields.list("arenas", 8);
  const Json& graphs = fields.list("graphs", 256);
  TRY(fields.status());
  Plan plan;
  for (const Json& json_arena : arenas) {
    Fields arena(json_arena, "arena");
    PlanArena made;
    made.address = static_cast<uint64_t>(arena.whole("address", 1, largest, 0));
    made.bytes = arena.whole("bytes", 1, max_extent, 0);
    TRY(arena.status());
    if (made.address == 0) return fail(Fault::invalid, "plan: an arena without address");
    plan.arenas.push_back(made);
  }
  for (const Json& graph : graphs) plan.graphs.push_back(TRY(graph_from(graph, plan)));
  return plan;
}

std::vector<std::string> kernel_names(const Plan& plan) {
  std::set<std::string> names;
  for (const PlanGraph& graph : plan.graphs) {
    for (const PlanNode& node : graph.nodes) {
      if (node.kind == PlanNodeKind::kernel) names.insert(node.kernel.name);
    }
  }
  return {names.begin(), names.end()};
}

Status check_order(const PlanGraph& graph) {
  std::vector<int64_t> waiting(graph.nodes.size(), 0);
  std::vector<std::vector<size_t>> after(graph.nodes.size());
  for (const PlanEdge& edge : graph.edges) {
    if (edge.from == edge.to) return fail(Fault::invalid, "plan: a node waits for itself");
    ++waiting[static_cast<size_t>(edge.to)];
    after[static_cast<size_t>(edge.from)].push_back(static_cast<size_t>(edge.to));
  }
  std::vector<size_t> ready;
  for (size_t i = 0; i < waiting.size(); ++i) {
    if (waiting[i] == 0) ready.push_back(i);
  }
  size_t done = 0;
  while (!ready.empty()) {
    const size_t node = ready.back();
    ready.pop_back();
    ++done;
    for (const size_t next : after[node]) {
      if (--waiting[next] == 0) ready.push_back(next);
    }
  }
  if (done != graph.nodes.size()) return fail(Fault::invalid, "plan: nodes wait in a circle");
  return {};
}

}  // namespace marathon
