#include "bench/cuda/gpu_session.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "marathon_kernel.h"

namespace marathon {

using namespace cuda;

namespace {

constexpr int64_t alignment = 1024, canary_bytes = 4096;
constexpr int64_t max_cubin_bytes = 64LL << 20;
constexpr int64_t tile = 64;  // places around multiples of it are where tails go wrong

int64_t aligned(int64_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

int64_t elements(const std::vector<int64_t>& extents) {
  int64_t count = 1;
  for (const int64_t extent : extents) count *= extent;
  return count;
}

// Ascending, distinct, the ends and one edge of a tile among them more often than chance has it.
std::vector<int64_t> secret_places(int64_t extent, int64_t count, Random& random) {
  std::set<int64_t> places;
  if (count >= extent) {
    for (int64_t i = 0; i < extent; ++i) places.insert(i);
  } else {
    if (count >= 4) places.insert({0, extent - 1});
    if (count >= 8 && extent > 2 * tile) {
      const int64_t edge = tile * (1 + static_cast<int64_t>(random.below(
                                           static_cast<uint64_t>((extent - 1) / tile))));
      places.insert({edge - 1, std::min(edge, extent - 1)});
    }
    while (static_cast<int64_t>(places.size()) < count)
      places.insert(static_cast<int64_t>(random.below(static_cast<uint64_t>(extent))));
  }
  return {places.begin(), places.end()};
}

}  // namespace

Result<DeviceMemory> DeviceMemory::make(const Gpu& gpu, int64_t bytes) {
  CUdeviceptr address = 0;
  TRY(gpu.driver->ok(gpu.driver->cuMemAlloc(&address, static_cast<size_t>(std::max<int64_t>(bytes, 8))),
                     fmt::format("take {:.2f} GB of the GPU's memory", 1e-9 * static_cast<double>(bytes))));
  return DeviceMemory(gpu, address);
}

DeviceMemory::DeviceMemory(DeviceMemory&& other) noexcept
    : gpu_(other.gpu_), address_(std::exchange(other.address_, 0)) {}

DeviceMemory::~DeviceMemory() {
  if (address_) gpu_->driver->cuMemFree(address_);
}

Result<std::unique_ptr<GpuSession>> GpuSession::make(const BenchRequest& request,
                                                     const Task& task) {
  std::unique_ptr<GpuSession> session(new GpuSession(request, task));
  TRY(session->open());
  TRY(session->load_oracles());
  TRY(session->plan_shapes());
  return session;
}

GpuSession::~GpuSession() {
  if (stream_) gpu_.driver->cuStreamDestroy(stream_);
  for (void* handle : handles_) ::dlclose(handle);
}

Status GpuSession::open() {
  gpu_ = TRY(open_judging_gpu(static_cast<int>(request_.gpu)));
  const std::string image = TRY(read_file(request_.judge_cubin, max_cubin_bytes));
  kernels_.emplace(TRY(JudgeKernels::load(gpu_, image)));
  TRY(gpu_.driver->ok(gpu_.driver->cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING),
                      "make a stream"));
  small_.emplace(TRY(DeviceMemory::make(gpu_, 64)));
  return {};
}

Status GpuSession::load_oracles() {
  const auto load = [&](const std::filesystem::path& library) -> Result<void*> {
    void* handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle)
      return fail(Fault::invalid, fmt::format("the oracle does not load: {}", ::dlerror()));
    handles_.push_back(handle);
    void* entry = ::dlsym(handle, "marathon_oracle");
    if (!entry) return fail(Fault::invalid, "the oracle exports no marathon_oracle (extern \"C\")");
    return entry;
  };
  reference_ = TRY(load(request_.oracle));
  emulation_ = TRY(load(request_.emulation));
  return {};
}

Status GpuSession::plan_shapes() {
  const size_t tensors = task_.tensors.size();
  for (size_t index = 0; index < task_.shapes.size(); ++index) {
    const Shape& shape = task_.shapes[index];
    GpuShape made;
    made.index = index;
    made.plan.shape = &shape;
    made.plan.dims = dims_of(task_, shape);
    made.plan.sizes.tensor_bytes.resize(tensors);
    made.plan.sizes.is_output.resize(tensors);
    made.plan.samplers.resize(tensors);
    made.plan.rounds = task_.measure.rounds;
    made.plan.sets = static_cast<int32_t>(std::clamp<int64_t>(task_.measure.buffer_sets, 2, 64));
    for (size_t t = 0; t < tensors; ++t) {
      const Tensor& tensor = task_.tensors[t];
      const std::vector<int64_t> extents = TRY(extents_of(task_, tensor, shape));
      made.plan.sizes.tensor_bytes[t] = elements(extents) * bytes_of(tensor.dtype);
      made.plan.sizes.is_output[t] = tensor.role == Role::output;
      std::vector<int64_t> compact = extents;
      if (tensor.sample) {
        int64_t& extent = compact[static_cast<size_t>(tensor.sample->axis)];
        extent = std::min(extent, tensor.sample->count);
      }
      made.plan.extents.push_back(extents);
      made.compact.push_back(std::move(compact));
      if (tensor.role == Role::input && tensor.host)
        made.plan.samplers[t] = TRY(Sampler::make(task_, tensor, shape));
    }
    shapes_.push_back(std::move(made));
  }
  return {};
}

Status GpuSession::lay_out() {
  int64_t input_bytes = 0, output_bytes = 0;
  for (GpuShape& shape : shapes_) {
    int64_t input = 0, output = 0;
    const size_t tensors = task_.tensors.size();
    shape.offsets.assign(static_cast<size_t>(shape.plan.sets), std::vector<int64_t>(tensors));
    shape.host.assign(static_cast<size_t>(shape.plan.sets), std::vector<std::string>(tensors));
    for (int32_t set = 0; set < shape.plan.sets; ++set) {
      const size_t s = static_cast<size_t>(set);
      shape.input_begin.push_back(input);
      shape.output_begin.push_back(output);
      // A secret shift, so that an address tells nothing.
      output += canary_bytes + alignment * static_cast<int64_t>(random_.below(16));
      for (size_t t = 0; t < tensors; ++t) {
        const bool out = shape.plan.sizes.is_output[t];
        int64_t& at = out ? output : input;
        shape.offsets[s][t] = at;
        at += aligned(shape.plan.sizes.tensor_bytes[t]) + (out ? canary_bytes : 0);
        if (out || !task_.tensors[t].host) continue;
        shape.host[s][t].resize(static_cast<size_t>(shape.plan.sizes.tensor_bytes[t]));
        shape.plan.samplers[t].fill(shape.host[s][t].data(), random_.next());
      }
      shape.workspaces.push_back(output);
      output += aligned(shape.plan.sizes.workspace_bytes) + canary_bytes;
      shape.input_end.push_back(input);
      shape.output_end.push_back(output);
    }
    input_bytes = std::max(input_bytes, input);
    output_bytes = std::max(output_bytes, output);
  }
  arenas_.clear();
  arenas_.resize(2);
  arenas_[input_arena].emplace(TRY(DeviceArena::make(gpu_, input_bytes)));
  arenas_[output_arena].emplace(TRY(DeviceArena::make(gpu_, output_bytes)));
  return {};
}

uint64_t GpuSession::address(const GpuShape& shape, int64_t set, size_t tensor) const {
  const GpuArena which = shape.plan.sizes.is_output[tensor] ? output_arena : input_arena;
  return arena(which).address() +
         static_cast<uint64_t>(shape.offsets[static_cast<size_t>(set)][tensor]);
}

Status GpuSession::fill(const GpuShape& shape, int64_t set, uint64_t seed) {
  Random random(seed);
  for (size_t t = 0; t < task_.tensors.size(); ++t) {
    const Tensor& tensor = task_.tensors[t];
    if (tensor.role != Role::input) continue;
    const uint64_t own_seed = random.next(), to = address(shape, set, t);
    if (tensor.host) {
      const std::string& bytes = shape.host[static_cast<size_t>(set)][t];
      if (bytes.empty()) continue;
      TRY(gpu_.driver->ok(
          gpu_.driver->cuMemcpyHtoDAsync(to, bytes.data(), bytes.size(), stream_),
          "copy a tensor to the GPU"));
      continue;
    }
    const auto own = shape.plan.shape->distributions.find(tensor.name);
    const Distribution& distribution =
        own == shape.plan.shape->distributions.end() ? tensor.distribution : own->second;
    JudgeKernels::Fill job;
    job.to = to;
    job.type = static_cast<int32_t>(tensor.dtype);
    job.count = elements(shape.plan.extents[t]);
    job.row = shape.plan.extents[t].empty() ? 1 : std::max<int64_t>(shape.plan.extents[t].back(), 1);
    job.kind = static_cast<int32_t>(distribution.kind);
    job.a = distribution.a;
    job.b = distribution.b;
    job.norm = tensor.normalize_last_axis;
    job.seed = own_seed;
    TRY(kernels_->fill(job, stream_));
  }
  return synchronise();
}

Result<uint64_t> GpuSession::take(int64_t bytes) {
  kept_.push_back(TRY(DeviceMemory::make(gpu_, bytes)));
  return kept_.back().address();
}

void GpuSession::forget_solved() { kept_.clear(); }

Result<GpuSolved> GpuSession::solve(const GpuShape& shape, int64_t set, uint64_t seed,
                                    bool with_emulation) {
  TRY(fill(shape, set, seed));
  const size_t tensors = task_.tensors.size();
  GpuSolved solved;
  solved.seed = seed;
  solved.set = set;
  solved.expected.resize(tensors);
  solved.emulated.resize(tensors);
  solved.indices.resize(tensors);
  // Outputs that sample the same axis by the same number share their places: an oracle computes
  // them together.
  std::map<std::pair<int64_t, int64_t>, uint64_t> drawn;
  for (size_t t = 0; t < tensors; ++t) {
    const Tensor& tensor = task_.tensors[t];
    if (tensor.role != Role::output) continue;
    const int64_t bytes = elements(shape.compact[t]) * 8;
    solved.expected[t] = TRY(take(bytes));
    if (with_emulation) solved.emulated[t] = TRY(take(bytes));
    if (!tensor.sample) continue;
    const size_t axis = static_cast<size_t>(tensor.sample->axis);
    const std::pair<int64_t, int64_t> key = {shape.plan.extents[t][axis], tensor.sample->count};
    if (!drawn.contains(key)) {
      const std::vector<int64_t> places = secret_places(key.first, key.second, random_);
      const uint64_t at = TRY(take(static_cast<int64_t>(places.size()) * 8));
      TRY(gpu_.driver->ok(gpu_.driver->cuMemcpyHtoD(at, places.data(), places.size() * 8),
                          "copy secret places"));
      drawn[key] = at;
    }
    solved.indices[t] = drawn[key];
  }
  TRY(run_oracle(reference_, shape, solved, solved.expected));
  if (with_emulation) TRY(emulate(shape, solved));
  return solved;
}

Status GpuSession::emulate(const GpuShape& shape, const GpuSolved& solved) {
  return run_oracle(emulation_, shape, solved, solved.emulated);
}

Result<ErrorBound> GpuSession::bound_for(const GpuShape& shape, size_t tensor,
                                         const ErrorFigures& honest) const {
  const Tensor& output = task_.tensors[tensor];
  if (!honest.not_finite.empty())
    return fail(Fault::invalid, fmt::format("shape {}: the honest emulation itself is not "
                                            "finite where the oracle is: output {}, {}",
                                            shape.plan.shape->name, output.name,
                                            honest.not_finite));
  ErrorBound bound = bound_of(task_.tolerance, output.name, honest);
  // Steps of rounding double at each power of two, and another draw may hold a larger element.
  if (bytes_of(output.dtype) <= 2) bound.element *= 2;
  return bound;
}

Status GpuSession::run_oracle(void* entry, const GpuShape& shape, const GpuSolved& solved,
                              const std::vector<uint64_t>& outputs) {
  std::vector<void*> pointers;
  std::vector<const void*> host;
  std::vector<MarathonSample> samples;
  for (size_t t = 0; t < task_.tensors.size(); ++t) {
    const bool out = task_.tensors[t].role == Role::output;
    pointers.push_back(reinterpret_cast<void*>(out ? outputs[t] : address(shape, solved.set, t)));
    const std::string& bytes = shape.host[static_cast<size_t>(solved.set)][t];
    host.push_back(bytes.empty() ? nullptr : bytes.data());
    MarathonSample sample = {-1, 0, reinterpret_cast<const int64_t*>(solved.indices[t])};
    if (solved.indices[t] != 0)
      sample.count = shape.compact[t][static_cast<size_t>(task_.tensors[t].sample->axis)];
    if (sample.count > 0) sample.axis = task_.tensors[t].sample->axis;
    samples.push_back(sample);
  }
  MarathonArgs args = {};
  args.abi = 1;
  args.dim_count = static_cast<int64_t>(shape.plan.dims.size());
  args.dims = shape.plan.dims.data();
  args.tensor_count = static_cast<int64_t>(pointers.size());
  args.tensors = pointers.data();
  args.stream = stream_;
  args.host = host.data();
  const auto oracle = reinterpret_cast<int (*)(const MarathonArgs*, const MarathonSample*)>(entry);
  if (const int code = oracle(&args, samples.data()); code != 0)
    return fail(Fault::invalid, fmt::format("the task's oracle refused shape {} (it returned {})",
                                            shape.plan.shape->name, code));
  return gpu_.driver->ok(gpu_.driver->cuStreamSynchronize(stream_), "run the task's oracle");
}

Status GpuSession::poison(const GpuShape& shape, int64_t set, uint64_t seed) {
  const size_t s = static_cast<size_t>(set);
  TRY(kernels_->poison(arena(output_arena).address() + static_cast<uint64_t>(shape.output_begin[s]),
                       0, (shape.output_end[s] - shape.output_begin[s]) / 8, seed, stream_));
  return synchronise();
}

ReplayMemory GpuSession::replay_memory(const GpuShape& shape, uint64_t inputs,
                                       uint64_t outputs) const {
  const auto range = [](uint64_t base, int64_t begin, int64_t end) {
    return AddressRange{base + static_cast<uint64_t>(begin), end - begin};
  };
  ReplayMemory memory;
  for (size_t s = 0; s < shape.output_begin.size(); ++s) {
    const int64_t workspace = shape.workspaces[s];
    memory.sets.push_back(
        {range(outputs, shape.output_begin[s], shape.output_end[s]),
         range(outputs, workspace, workspace + shape.plan.sizes.workspace_bytes),
         range(inputs, shape.input_begin[s], shape.input_end[s])});
  }
  // A larger shape's part of the arena.
  memory.rest = range(outputs, shape.output_end.back(), arena(output_arena).bytes());
  return memory;
}

Result<uint64_t> GpuSession::digest(uint64_t from, int64_t bytes) {
  TRY(gpu_.driver->ok(gpu_.driver->cuMemsetD8Async(small_->address(), 0, 8, stream_), "clear"));
  TRY(kernels_->digest(from, bytes, small_->address(), stream_));
  TRY(synchronise());
  uint64_t sum = 0;
  TRY(gpu_.driver->ok(gpu_.driver->cuMemcpyDtoH(&sum, small_->address(), 8), "read a digest"));
  return sum;
}

Result<uint64_t> GpuSession::digest_inputs(const GpuShape& shape, int64_t set) {
  const size_t s = static_cast<size_t>(set);
  return digest(arena(input_arena).address() + static_cast<uint64_t>(shape.input_begin[s]),
                shape.input_end[s] - shape.input_begin[s]);
}

Result<uint64_t> GpuSession::digest_outputs(const GpuShape& shape, int64_t set) {
  uint64_t all = 0;
  for (size_t t = 0; t < task_.tensors.size(); ++t) {
    if (shape.plan.sizes.is_output[t])
      all = all * 31 + TRY(digest(address(shape, set, t), shape.plan.sizes.tensor_bytes[t] / 8 * 8));
  }
  return all;
}

Result<ErrorFigures> GpuSession::errors(const GpuShape& shape, const GpuSolved& solved,
                                        size_t tensor, bool of_emulation) {
  const std::vector<int64_t>&compact = shape.compact[tensor], &full = shape.plan.extents[tensor];
  const RowGrid grid = grid_of(compact);
  if (elements(compact) == 0) return ErrorFigures();
  MarathonRows job;
  job.output = of_emulation ? solved.emulated[tensor] : address(shape, solved.set, tensor);
  job.expected = solved.expected[tensor];
  job.round_to = static_cast<int32_t>(task_.tensors[tensor].dtype);
  job.type = of_emulation ? static_cast<int32_t>(DType::fp64) : job.round_to;
  job.rank = static_cast<int32_t>(compact.size());
  if (job.rank < 1 || job.rank > 8)
    return fail(Fault::invalid, "an output has no axis, or more than eight");
  const bool sampled = !of_emulation && solved.indices[tensor] != 0;
  job.axis = sampled ? static_cast<int32_t>(task_.tensors[tensor].sample->axis) : -1;
  for (size_t a = 0; a < compact.size(); ++a) {
    job.full[a] = of_emulation ? compact[a] : full[a];
    job.compact[a] = compact[a];
  }
  job.indices = solved.indices[tensor];
  job.row = grid.row;
  job.cuts = grid.cuts;
  job.count = grid.rows();
  const DeviceMemory sums =
      TRY(DeviceMemory::make(gpu_, job.count * static_cast<int64_t>(sizeof(MarathonRowSums))));
  TRY(kernels_->rows(job, sums.address(), stream_));
  TRY(synchronise());
  std::vector<MarathonRowSums> raw(static_cast<size_t>(job.count));
  TRY(gpu_.driver->ok(gpu_.driver->cuMemcpyDtoH(raw.data(), sums.address(),
                                                raw.size() * sizeof(MarathonRowSums)),
                      "read sums of errors"));
  std::vector<RowSums> rows;
  rows.reserve(raw.size());
  for (size_t i = 0; i < raw.size(); ++i) {
    const int64_t index = static_cast<int64_t>(i);
    if (raw[i].odd > 0) {
      ErrorFigures figures;
      figures.not_finite =
          fmt::format("{} is NaN or infinite and should not be, or the other way round",
                      place_in_words(task_.tensors[tensor], compact, grid.first_element(index),
                                     grid.first_element(index)));
      return figures;
    }
    rows.push_back({raw[i].error, raw[i].truth, raw[i].worst, grid.size_of(index)});
  }
  return errors_of_rows(rows, grid);
}

Result<std::string> GpuSession::broken_canary(const GpuShape& shape, int64_t set, uint64_t seed) {
  struct Buffer {
    int64_t begin, end;
    std::string name;
  };
  const size_t s = static_cast<size_t>(set);
  const int64_t begin = shape.output_begin[s], end = shape.output_end[s];
  std::vector<Buffer> buffers;
  for (size_t t = 0; t < task_.tensors.size(); ++t) {
    if (!shape.plan.sizes.is_output[t]) continue;
    const int64_t from = shape.offsets[s][t];
    buffers.push_back(
        {from, from + shape.plan.sizes.tensor_bytes[t], "output " + task_.tensors[t].name});
  }
  const int64_t workspace = shape.workspaces[s];
  buffers.push_back({workspace, workspace + shape.plan.sizes.workspace_bytes, "its workspace"});
  std::sort(buffers.begin(), buffers.end(),
            [](const Buffer& a, const Buffer& b) { return a.begin < b.begin; });
  // The least byte that was changed between them, counted from `begin`.
  const uint64_t base = arena(output_arena).address() + static_cast<uint64_t>(begin);
  const uint64_t first = small_->address() + 8;
  TRY(gpu_.driver->ok(gpu_.driver->cuMemsetD8Async(first, 0xff, 8, stream_), "clear"));
  int64_t at = begin;
  for (const Buffer& buffer : buffers) {
    TRY(kernels_->find_damage(base, at - begin, buffer.begin - begin, seed, first, stream_));
    at = buffer.end;
  }
  TRY(kernels_->find_damage(base, at - begin, end - begin, seed, first, stream_));
  TRY(synchronise());
  uint64_t found = 0;
  TRY(gpu_.driver->ok(gpu_.driver->cuMemcpyDtoH(&found, first, 8), "read a place"));
  if (found == ~uint64_t{0}) return std::string();
  const int64_t place = begin + static_cast<int64_t>(found);
  const Buffer* before = nullptr;
  for (const Buffer& buffer : buffers) {
    if (buffer.end > place) {
      if (before && place - before->end < buffer.begin - place) break;
      return fmt::format("it wrote {} bytes before {}", buffer.begin - place, buffer.name);
    }
    before = &buffer;
  }
  return fmt::format("it wrote {} bytes behind {}", place - before->end + 1, before->name);
}

Result<double> GpuSession::idle_probe() {
  constexpr uint64_t probe_ns = 10'000'000;
  TRY(gpu_.driver->ok(gpu_.driver->cuMemsetD8Async(small_->address(), 0, 8, stream_), "clear"));
  TRY(kernels_->probe(probe_ns, small_->address(), stream_));
  TRY(synchronise());
  uint64_t gap = 0;
  TRY(gpu_.driver->ok(gpu_.driver->cuMemcpyDtoH(&gap, small_->address(), 8), "read the probe"));
  return static_cast<double>(gap);
}

Status GpuSession::synchronise() const {
  return gpu_.driver->ok(gpu_.driver->cuStreamSynchronize(stream_), "wait for the judge's kernels");
}

}  // namespace marathon
