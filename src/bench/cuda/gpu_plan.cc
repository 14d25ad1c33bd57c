#include "bench/cuda/gpu_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/hash.h"
#include "base/cubin.h"
#include "bench/cuda/replay_server.h"

namespace marathon {

namespace fs = std::filesystem;

namespace {

constexpr int64_t max_cubin_bytes = 256LL << 20;
constexpr int64_t max_workspace_bytes = 32LL << 30;
// Of Python with torch, before a worker's first answer; of opening the GPU.
constexpr double start_limit_s = 60, open_limit_s = 60, replay_start_limit_s = 60;
// Lower in the address space than the driver's own allocations, so that a replayer finds it free.
constexpr uint64_t wished_address = 0x600000000000;

Json bytes_json(const std::string& bytes) {
  Json list = Json::array();
  for (const char c : bytes) list.push_back(static_cast<uint8_t>(c));
  return list;
}

Json sets_of(const GpuShape& shape) {
  Json sets = Json::array();
  for (size_t s = 0; s < shape.offsets.size(); ++s) {
    Json tensors = Json::array(), host = Json::array();
    for (size_t t = 0; t < shape.offsets[s].size(); ++t) {
      const GpuArena which = shape.plan.sizes.is_output[t] ? output_arena : input_arena;
      tensors.push_back({{"arena", static_cast<int64_t>(which)}, {"offset", shape.offsets[s][t]}});
      if (!shape.host[s][t].empty())
        host.push_back({{"tensor", t}, {"bytes", bytes_json(shape.host[s][t])}});
    }
    sets.push_back({{"tensors", tensors},
                    {"host", host},
                    {"workspace",
                     {{"arena", static_cast<int64_t>(output_arena)},
                      {"offset", shape.workspaces[s]}}}});
  }
  return sets;
}

Json memory_json(const GpuSession& session, const GpuPlans& plans, const GpuShape& shape) {
  return to_json(session.replay_memory(shape, plans.arenas[input_arena].address,
                                       plans.arenas[output_arena].address));
}

// Runs it on decoys and captures one graph a set; `file`: where the plan goes. Two limits: the call
// itself and the captures. A trusted baseline may tune its library's kernels meanwhile.
GpuProcess::Answer ask_for_plan(GpuSession& session, const GpuPlans& plans, const GpuShape& shape,
                                GpuProcess& worker, const fs::path& file) {
  return worker.ask({{"do", "plan"},
                     {"shape", shape.index},
                     {"dims", shape.plan.dims},
                     {"extents", shape.plan.extents},
                     {"workspace_bytes", shape.plan.sizes.workspace_bytes},
                     {"sets", sets_of(shape)},
                     {"memory", memory_json(session, plans, shape)},
                     {"file", file.string()}},
                    session.task().measure.timeout_s * 2 + (plans.trusted ? start_limit_s : 0));
}

Status fill_decoys(GpuSession& session, const GpuShape& shape) {
  for (int64_t set = 0; set < shape.plan.sets; ++set) {
    TRY(session.fill(shape, set, session.random().next()));
    TRY(session.poison(shape, set, session.random().next()));
  }
  return {};
}

// Cubins that Triton left in the candidate's cache, copied to where no worker can write.
Result<std::vector<fs::path>> collect_cubins(const fs::path& from, const fs::path& to) {
  std::vector<fs::path> cubins;
  TRY(make_folders(to));
  std::error_code code;
  for (fs::recursive_directory_iterator at(from, code), end; !code && at != end; at.increment(code)) {
    if (at->path().extension() != ".cubin" || !at->is_regular_file() || at->is_symlink()) continue;
    const std::string bytes = TRY(read_file(at->path(), max_cubin_bytes));
    cubins.push_back(to / (sha256_hex(bytes) + ".cubin"));
    TRY(write_file(cubins.back(), bytes));
  }
  return cubins;
}

class Planner {
 public:
  Planner(GpuSession& session, const std::vector<GpuImplementation>& implementations,
          const fs::path& folder)
      : session_(session), implementations_(implementations), folder_(folder) {}

  Result<Planned> run() {
    planned_.arms.resize(implementations_.size());
    if (!TRY(start_workers()) || !TRY(ask_workspaces())) return std::move(planned_);
    if (!TRY(lay_out()) || !TRY(map_arenas())) return std::move(planned_);
    for (GpuShape& shape : session_.shapes()) {
      if (is_looked_at(session_, shape) && !TRY(plan_shape(shape))) return std::move(planned_);
    }
    for (const Running& worker : workers_) {
      GpuImplementation& implementation = planned_.arms[worker.arm].implementation;
      if (implementation.is_trusted) continue;
      if (implementation.is_python())
        implementation.cubins = TRY(collect_cubins(
            worker.temp / "triton", folder_ / fmt::format("cubins-{}", worker.arm)));
      const std::string broken = TRY(broken_rule_of(implementation.cubins));
      if (!broken.empty() && !note(worker.arm, {VerdictKind::rule_broken, broken}, nullptr)) break;
    }
    return std::move(planned_);
  }

  static Result<std::string> broken_rule_of(const std::vector<fs::path>& cubins) {
    for (const fs::path& cubin : cubins) {
      const Result<CubinFacts> facts = read_cubin(TRY(read_file(cubin, max_cubin_bytes)));
      if (!facts) return facts.error().what;
      if (std::string broken = broken_cubin_rule(*facts); !broken.empty()) return broken;
    }
    return std::string();
  }

 private:
  struct Running {
    size_t arm;
    std::shared_ptr<GpuProcess> process;
    fs::path temp;
  };

  // False, always: the rest need not be run.
  bool note(size_t arm, const WorkerFailure& failure, const GpuShape* shape) {
    if (arm == static_cast<size_t>(Arm::candidate)) {
      planned_.failure = ShapeFailure{failure.kind, failure.why};
      if (shape) {
        planned_.failed_shape = shape->plan.shape->name;
        planned_.failed_set = std::string(to_string(shape->plan.shape->set));
      }
    } else {
      planned_.ambiguous = fmt::format(
          "the {} fails: {}", arm == static_cast<size_t>(Arm::baseline) ? "baseline" : "incumbent",
          failure.why);
    }
    return false;
  }

  Result<bool> start_workers() {
    for (size_t arm = 0; arm < implementations_.size(); ++arm) {
      const GpuImplementation& implementation = implementations_[arm];
      planned_.arms[arm].implementation = implementation;
      if (implementation.empty()) continue;
      const fs::path temp = folder_ / fmt::format("worker-{}", arm);
      TRY(make_folders(temp));
      GpuProcessOptions options;
      options.argv = TRY(words_of(implementation, temp));
      if (session_.request().unsafe_no_sandbox) options.argv.emplace_back("--unsafe-no-sandbox");
      options.temp_folder = temp;
      options.start_limit_s = start_limit_s;
      options.jailed = !implementation.is_trusted;
      std::shared_ptr<GpuProcess> process =
          std::make_shared<GpuProcess>(TRY(GpuProcess::start(options)));
      planned_.arms[arm].sandbox = process->level();
      if (implementation.is_trusted) planned_.arms[arm].trusted = process;
      workers_.push_back({arm, std::move(process), temp});
    }
    return true;
  }

  Result<std::vector<std::string>> words_of(const GpuImplementation& implementation,
                                            const fs::path& temp) const {
    const fs::path& worker = session_.request().worker;
    const std::string library = implementation.library.string();
    if (!implementation.is_python())
      return std::vector<std::string>{worker.string(), "cuda", "--lib", library, "--temp",
                                      temp.string()};
    const fs::path beside = worker.parent_path();
    Json dims = Json::array(), tensors = Json::array();
    for (const std::string& name : session_.task().dims) dims.push_back(name);
    for (const Tensor& tensor : session_.task().tensors)
      tensors.push_back({{"name", tensor.name}, {"dtype", std::string(to_string(tensor.dtype))}});
    TRY(write_file(temp / "task.json", dump_json({{"dims", dims}, {"tensors", tensors}})));
    std::vector<std::string> words = {"python3",
                                      (beside / "marathon_worker.py").string(),
                                      "--library",
                                      (beside / "libmarathon_torch.so").string(),
                                      "--module",
                                      library,
                                      "--task",
                                      (temp / "task.json").string(),
                                      "--temp",
                                      temp.string()};
    if (implementation.is_trusted) words.emplace_back("--trusted");
    return words;
  }

  // The largest wish is given to all, so that addresses tell nothing.
  Result<bool> ask_workspaces() {
    for (Running& worker : workers_) {
      double start_s = start_limit_s;
      for (GpuShape& shape : session_.shapes()) {
        if (!is_looked_at(session_, shape)) continue;
        const GpuProcess::Answer answer =
            worker.process->ask({{"do", "workspace"}, {"dims", shape.plan.dims}},
                               session_.task().measure.timeout_s + std::exchange(start_s, 0));
        if (answer.failure) return note(worker.arm, *answer.failure, &shape);
        const int64_t bytes = json_int(*answer.body, "bytes", -1);
        if (bytes < 0 || bytes > max_workspace_bytes) {
          return note(worker.arm,
                      {VerdictKind::rule_broken,
                       fmt::format("it wants a workspace of {} bytes: want 0 to {} (32 GiB)", bytes,
                                   max_workspace_bytes)},
                      &shape);
        }
        // Whole words: they are overwritten as such.
        int64_t& most = shape.plan.sizes.workspace_bytes;
        most = std::max(most, (bytes + 7) / 8 * 8);
        if (bytes > most_workspace_) {
          most_workspace_ = bytes;
          most_of_ = worker.arm;
        }
      }
    }
    return true;
  }

  // What does not fit with workspaces is the doing of who wants the largest one.
  Result<bool> lay_out() {
    const Status laid = session_.lay_out();
    if (laid) return true;
    if (laid.error().fault != Fault::no_space || most_workspace_ == 0)
      return tl::unexpected(laid.error());
    return note(most_of_,
                {VerdictKind::rule_broken,
                 fmt::format("{} times a workspace of {:.2f} GB, one for each buffer set, "
                             "does not fit beside the tensors: {}",
                             session_.shapes().front().plan.sets,
                             1e-9 * static_cast<double>(most_workspace_), laid.error().what)},
                nullptr);
  }

  Result<bool> map_arenas() {
    for (Running& worker : workers_) {
      Json arenas = Json::array();
      std::vector<Fd> descriptors;
      std::vector<int> numbers;
      uint64_t wish = wished_address;
      for (const GpuArena which : {input_arena, output_arena}) {
        const DeviceArena& arena = session_.arena(which);
        descriptors.push_back(TRY(arena.share()));
        numbers.push_back(descriptors.back().get());
        arenas.push_back({{"bytes", arena.bytes()}, {"address", wish}});
        wish += static_cast<uint64_t>(arena.bytes()) + (1ull << 32);
        wish = wish >> 32 << 32;
      }
      const GpuProcess::Answer answer = worker.process->ask(
          {{"do", "map"},
           {"gpu", session_.request().gpu},
           {"arenas", arenas},
           {"judge_cubin", session_.request().judge_cubin.string()}},
          open_limit_s,
          numbers);
      if (answer.failure) return note(worker.arm, *answer.failure, nullptr);
      const Json addresses = answer.body->value("addresses", Json::array());
      if (!addresses.is_array() || addresses.size() != 2 || !addresses[0].is_number_integer() ||
          !addresses[1].is_number_integer())
        return note(worker.arm, {VerdictKind::suspicious, "its worker answered nonsense"}, nullptr);
      for (const GpuArena which : {input_arena, output_arena}) {
        planned_.arms[worker.arm].arenas.push_back(
            {addresses[static_cast<size_t>(which)].get<uint64_t>(),
             session_.arena(which).bytes()});
      }
    }
    return true;
  }

  Result<bool> plan_shape(GpuShape& shape) {
    TRY(fill_decoys(session_, shape));
    for (Running& worker : workers_) {
      if (implementations_[worker.arm].is_trusted) continue;  // when it is run
      GpuPlans& plans = planned_.arms[worker.arm];
      const fs::path made = worker.temp / fmt::format("plan-{}.json", shape.index);
      const GpuProcess::Answer answer =
          ask_for_plan(session_, plans, shape, *worker.process, made);
      if (answer.failure) return note(worker.arm, *answer.failure, &shape);
      const fs::path kept = folder_ / fmt::format("plan-{}-{}.json", worker.arm, shape.index);
      if (const Status read = keep(made, kept, plans, shape.plan.sets); !read) {
        if (read.error().fault != Fault::invalid) return tl::unexpected(read.error());
        return note(worker.arm, {VerdictKind::rule_broken, read.error().what}, &shape);
      }
      plans.files.resize(session_.task().shapes.size());
      plans.files[shape.index] = kept;
    }
    return true;
  }

  // Reads what the worker wrote, once, and writes it anew where no worker can.
  Status keep(const fs::path& made, const fs::path& kept, const GpuPlans& plans, int64_t sets) {
    Result<std::string> text = read_file(made, max_plan_file_bytes);
    if (!text) return fail(Fault::invalid, "its worker left no plan: " + text.error().what);
    Result<Json> json = parse_json(*text);
    if (!json) return fail(Fault::invalid, "its worker left a plan that is no JSON");
    Plan plan = TRY(plan_from_json(*json));
    if (static_cast<int64_t>(plan.graphs.size()) != sets)
      return fail(Fault::invalid, "its plan has another number of buffer sets than asked for");
    for (size_t i = 0; i < plan.arenas.size(); ++i) {
      if (i >= plans.arenas.size() || plan.arenas[i].address != plans.arenas[i].address ||
          plan.arenas[i].bytes != plans.arenas[i].bytes)
        return fail(Fault::invalid, "its plan has the judge's buffers elsewhere than it said");
    }
    for (const PlanGraph& graph : plan.graphs) {
      if (graph.nodes.empty())
        return fail(Fault::invalid,
                    "its graph is empty: launch on args->stream, or on streams forked from it");
    }
    return write_file(kept, dump_json(to_json(plan)));
  }

  GpuSession& session_;
  const std::vector<GpuImplementation>& implementations_;
  const fs::path& folder_;
  std::vector<Running> workers_;
  int64_t most_workspace_ = 0;  // at any shape
  size_t most_of_ = 0;          // the arm that wants it
  Planned planned_;
};

}  // namespace

Result<Planned> plan_all(GpuSession& session, const std::vector<GpuImplementation>& implementations,
                         const fs::path& folder) {
  return Planner(session, implementations, folder).run();
}

Result<std::shared_ptr<GpuProcess>> begin_start(GpuSession& session, const GpuPlans& plans,
                                                const fs::path& folder) {
  if (plans.trusted) return plans.trusted;
  GpuProcessOptions options;
  options.argv = session.request().tool;
  options.under_tool = !options.argv.empty();
  options.argv.insert(options.argv.end(), {session.request().worker.string(), "replay"});
  options.temp_folder = folder;
  options.jailed = false;
  std::shared_ptr<GpuProcess> process =
      std::make_shared<GpuProcess>(TRY(GpuProcess::start(options)));
  Json arenas = Json::array(), cubins = Json::array();
  std::vector<Fd> descriptors;
  std::vector<int> numbers;
  for (const GpuArena which : {input_arena, output_arena}) {
    const DeviceArena& arena = session.arena(which);
    descriptors.push_back(TRY(arena.share()));
    numbers.push_back(descriptors.back().get());
    arenas.push_back({{"bytes", arena.bytes()},
                      {"address", plans.arenas[static_cast<size_t>(which)].address},
                      {"read_only", which == input_arena}});
  }
  for (const fs::path& cubin : plans.implementation.cubins) cubins.push_back(cubin.string());
  process->tell({{"do", "open"},
                 {"gpu", session.request().gpu},
                 {"arenas", arenas},
                 {"cubins", cubins},
                 {"judge_cubin", session.request().judge_cubin.string()}},
                numbers);
  return process;
}

std::optional<WorkerFailure> finish_start(const GpuPlans& plans, GpuProcess& replayer) {
  if (plans.trusted) return std::nullopt;
  return replayer.hear(replay_start_limit_s).failure;
}

std::optional<WorkerFailure> add_shape(GpuSession& session, const GpuPlans& plans,
                                       const GpuShape& shape, GpuProcess& replayer) {
  if (plans.trusted) {
    if (const Status filled = fill_decoys(session, shape); !filled)
      return WorkerFailure{VerdictKind::ambiguous, filled.error().what};
    return ask_for_plan(session, plans, shape, replayer, {}).failure;
  }
  return replayer
      .ask({{"do", "add"},
            {"shape", shape.index},
            {"file", plans.files[shape.index].string()},
            {"memory", memory_json(session, plans, shape)}},
           replay_start_limit_s)
      .failure;
}

bool is_looked_at(const GpuSession& session, const GpuShape& shape) {
  if (!session.request().shape.empty()) return shape.plan.shape->name == session.request().shape;
  if (!session.request().quick) return true;
  if (shape.plan.shape->set == ShapeSet::stress) return true;
  const auto& all = session.task().shapes;
  const auto first = std::find_if(all.begin(), all.end(), [](const Shape& candidate) {
    return candidate.set == ShapeSet::listed;
  });
  return shape.plan.shape == &*first;
}

}  // namespace marathon
