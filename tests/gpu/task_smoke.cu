// Runs a task's oracle, its emulation and a CUDA solution on small shapes with tails and prints how
// far apart they are; with `--time` on large ones too, with milliseconds. Outside of any judge.
//
//   task_smoke TASK ORACLE.so EMULATION.so SOLUTION.so [--time]     TASK: kda-forward mla-decode
//   mla-prefill
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "marathon_kernel.h"

namespace {

enum class Type { bf16, fp32, int32, int64 };

int64_t bytes_of(Type type) { return type == Type::bf16 ? 2 : type == Type::int64 ? 8 : 4; }

void check(cudaError_t code, const char* what) {
  if (code == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(code));
  std::exit(1);
}

struct Tensor {
  std::string name;
  Type type = Type::bf16;
  std::vector<int64_t> extents;
  bool is_output = false;
  int64_t sample_axis = -1;        // outputs
  double mean = 0, deviation = 1;  // floating inputs without content
  std::vector<double> content;     // inputs
  void* device = nullptr;
  std::vector<char> host;

  int64_t count() const {
    int64_t all = 1;
    for (const int64_t extent : extents) all *= extent;
    return all;
  }
  int64_t bytes() const { return count() * bytes_of(type); }
};

struct Case {
  std::string label;
  std::vector<int64_t> dims;
  std::vector<Tensor> tensors;
  int64_t places = 0;  // secret places of the sampled axis; 0: all
};

// ---- inputs

__device__ uint64_t mixed(uint64_t seed, uint64_t i) {
  uint64_t z = seed + (i + 1) * 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

__global__ void fill_normal(void* to, bool is_bf16, int64_t count, float mean, float deviation,
                            uint64_t seed) {
  for (int64_t i = blockIdx.x * int64_t{256} + threadIdx.x; i < count;
       i += gridDim.x * int64_t{256}) {
    const uint64_t bits = mixed(seed, i);
    const float u = (static_cast<uint32_t>(bits >> 32) + 1.0f) * 0x1p-32f;
    const float v = static_cast<uint32_t>(bits) * 0x1p-32f;
    const float x = mean + deviation * sqrtf(-2 * logf(fminf(u, 1.0f))) * cospif(2 * v);
    if (is_bf16)
      static_cast<__nv_bfloat16*>(to)[i] = __float2bfloat16(x);
    else
      static_cast<float*>(to)[i] = x;
  }
}

void fill(Tensor& tensor, uint64_t seed) {
  if (tensor.content.empty()) {
    if (tensor.count() == 0) return;
    fill_normal<<<1024, 256>>>(tensor.device, tensor.type == Type::bf16, tensor.count(),
                               static_cast<float>(tensor.mean),
                               static_cast<float>(tensor.deviation), seed);
    return;
  }
  tensor.host.resize(tensor.bytes());
  for (size_t i = 0; i < tensor.content.size(); ++i) {
    char* to = tensor.host.data() + i * bytes_of(tensor.type);
    const float real = static_cast<float>(tensor.content[i]);
    const __nv_bfloat16 half = __float2bfloat16(real);
    const int32_t small = static_cast<int32_t>(tensor.content[i]);
    const int64_t whole = static_cast<int64_t>(tensor.content[i]);
    switch (tensor.type) {
      case Type::bf16:
        std::memcpy(to, &half, 2);
        break;
      case Type::fp32:
        std::memcpy(to, &real, 4);
        break;
      case Type::int32:
        std::memcpy(to, &small, 4);
        break;
      case Type::int64:
        std::memcpy(to, &whole, 8);
        break;
    }
  }
  check(cudaMemcpy(tensor.device, tensor.host.data(), tensor.bytes(), cudaMemcpyHostToDevice),
        "copy");
}

Tensor input(std::string name, Type type, std::vector<int64_t> extents, double mean = 0,
             double deviation = 1) {
  Tensor tensor;
  tensor.name = std::move(name), tensor.type = type, tensor.extents = std::move(extents);
  tensor.mean = mean, tensor.deviation = deviation;
  return tensor;
}
Tensor given(std::string name, Type type, std::vector<int64_t> extents,
             std::vector<double> content) {
  Tensor tensor = input(std::move(name), type, std::move(extents));
  tensor.content = std::move(content);
  return tensor;
}
Tensor output(std::string name, Type type, std::vector<int64_t> extents, int64_t sample_axis) {
  Tensor tensor = input(std::move(name), type, std::move(extents));
  tensor.is_output = true, tensor.sample_axis = sample_axis;
  return tensor;
}

// ---- tasks

Case kda(const char* label, int64_t b, int64_t t, int64_t h, const std::vector<int64_t>& lengths,
         int64_t places = 0, double gate_mean = 0, double gate_deviation = 0.5) {
  const int64_t n = static_cast<int64_t>(lengths.size());
  std::vector<double> offsets = {0}, bias;
  for (const int64_t length : lengths)
    offsets.push_back(offsets.back() + static_cast<double>(length));
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> half_life(std::log(4.0), std::log(16384.0));
  for (int64_t i = 0; i < h * 128; ++i) {
    const double p = std::log(2.0) / (5 * std::exp(half_life(random)));
    bias.push_back(std::log(p / (1 - p)));
  }
  return {
      label,
      {b, t, h, n, 128, 128},
      {input("q", Type::bf16, {b, t, h, 128}), input("k", Type::bf16, {b, t, h, 128}),
       input("v", Type::bf16, {b, t, h, 128}),
       input("g", Type::bf16, {b, t, h, 128}, gate_mean, gate_deviation),
       input("beta", Type::bf16, {b, t, h}),
       given("A_log", Type::fp32, {h}, std::vector<double>(h, 0.0)),
       given("dt_bias", Type::fp32, {h, 128}, bias), input("h0", Type::fp32, {n, h, 128, 128}),
       given("cu_seqlens", Type::int64, {n + 1}, offsets),
       output("o", Type::bf16, {b, t, h, 128}, 3), output("ht", Type::fp32, {n, h, 128, 128}, 3)},
      places};
}

Case decode(const char* label, int64_t q, int64_t h, int64_t s, int64_t r,
            const std::vector<double>& lengths) {
  const int64_t b = static_cast<int64_t>(lengths.size());
  return {label,
          {b, q, h, s, r, 0},
          {input("q", Type::bf16, {b, q, h, 512 + r}), input("latent", Type::bf16, {b, s, 512 + r}),
           given("lengths", Type::int32, {b}, lengths), output("o", Type::bf16, {b, q, h, 512}, -1),
           output("lse", Type::fp32, {b, q, h}, -1)},
          0};
}

Case prefill(const char* label, int64_t b, int64_t h, int64_t t, int64_t s, int64_t r,
             int64_t causal, int64_t offset, int64_t places = 0) {
  return {label,
          {b, h, t, s, r, causal, offset},
          {input("q", Type::bf16, {b, h, t, 512 + r}), input("latent", Type::bf16, {b, s, 512 + r}),
           output("o", Type::bf16, {b, h, t, 512}, 2), output("lse", Type::fp32, {b, h, t}, 2)},
          places};
}

std::vector<Case> cases_of(const std::string& task, bool timed) {
  std::vector<Case> cases;
  if (task == "kda-forward") {
    cases = {kda("one sequence", 1, 300, 2, {300}),
             kda("one token", 1, 1, 3, {1}),
             kda("batch of three", 3, 65, 2, {65, 65, 65}),
             kda("tails and empty ones", 1, 181, 2, {0, 1, 64, 33, 0, 17, 65, 1, 0}),
             kda("across the batch", 2, 100, 2, {150, 30, 20}),
             kda("sampled", 1, 777, 3, {700, 77}, 16),
             kda("gate -5", 1, 200, 2, {200}, 0, 200, 0),
             kda("gate 0", 1, 999, 2, {999}, 0, -200, 0)};
    if (timed) {
      for (const int64_t h : {96, 64, 32}) cases.push_back(kda("B1 T8192", 1, 8192, h, {8192}, 16));
      cases.push_back(kda("B2 T16384", 2, 16384, 16, {16384, 16384}, 16));
      cases.push_back(kda("B1 T65536", 1, 65536, 32, {65536}, 16));
      cases.push_back(kda("varlen T8192", 1, 8192, 96, {1300, 547, 2048, 963, 271, 3063}, 16));
    }
  } else if (task == "mla-decode") {
    cases = {decode("one key", 1, 64, 1, 0, {1}), decode("tail", 1, 64, 1003, 64, {1003}),
             decode("any length", 1, 16, 300, 64, {0, 1, 31, 32, 33, 64, 65, 129, 299, 300}),
             decode("twenty heads", 3, 20, 200, 0, {200, 77}),
             decode("many sequences", 1, 64, 150, 64, std::vector<double>(40, 150))};
    if (timed) {
      cases.push_back(decode("decode-512", 1, 64, 8192, 0, {8192}));
      cases.push_back(decode("decode-576", 1, 64, 8192, 64, {8192}));
      cases.push_back(decode("decode-b64-32k", 1, 64, 32768, 64, std::vector<double>(64, 32768)));
    }
  } else {
    cases = {prefill("one token", 1, 3, 1, 1, 0, 1, 0),
             prefill("causal", 1, 2, 130, 130, 64, 1, 0),
             prefill("full", 2, 3, 100, 70, 0, 0, 0),
             prefill("chunk", 1, 4, 129, 1130, 64, 1, 1001),
             prefill("no keys at first", 1, 2, 90, 90, 0, 1, -3),
             prefill("sampled", 1, 2, 999, 999, 0, 1, 0, 16)};
    if (timed) {
      for (const int64_t r : {0, 64}) {
        for (const int64_t causal : {0, 1})
          cases.push_back(prefill(causal ? "causal" : "full", 1, 64, 8192, 8192, r, causal, 0, 16));
      }
    }
  }
  return cases;
}

// ---- runs

struct Library {
  int (*run)(const MarathonArgs*) = nullptr;
  int (*oracle)(const MarathonArgs*, const MarathonSample*) = nullptr;
  int64_t (*workspace)(const int64_t*, int64_t) = nullptr;
};

Library open(const char* path) {
  void* handle = ::dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    std::fprintf(stderr, "%s\n", ::dlerror());
    std::exit(1);
  }
  Library library;
  library.run = reinterpret_cast<decltype(library.run)>(::dlsym(handle, "marathon_run"));
  library.oracle = reinterpret_cast<decltype(library.oracle)>(::dlsym(handle, "marathon_oracle"));
  library.workspace =
      reinterpret_cast<decltype(library.workspace)>(::dlsym(handle, "marathon_workspace_bytes"));
  return library;
}

double as_double(const char* from, Type type) {
  if (type == Type::fp32) {
    float x;
    std::memcpy(&x, from, 4);
    return x;
  }
  uint16_t bits;
  std::memcpy(&bits, from, 2);
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float x;
  std::memcpy(&x, &wide, 4);
  return x;
}

double to_bf16(double x) { return __bfloat162float(__double2bfloat16(x)); }

void* allocate(int64_t bytes) {
  void* to = nullptr;
  check(cudaMalloc(&to, std::max<int64_t>(bytes, 256)), "allocate");
  return to;
}

// Milliseconds of the second and later calls; 0 where nothing is timed.
double call(const std::function<int()>& work, const char* what, cudaStream_t stream, int repeats) {
  cudaEvent_t start, stop;
  check(cudaEventCreate(&start), "event");
  check(cudaEventCreate(&stop), "event");
  std::vector<float> times;
  for (int i = 0; i < std::max(repeats, 1); ++i) {
    check(cudaEventRecord(start, stream), "event");
    if (const int code = work(); code != 0) {
      std::printf("%s returned %d\n", what, code);
      std::exit(1);
    }
    check(cudaEventRecord(stop, stream), "event");
    check(cudaStreamSynchronize(stream), what);
    float ms = 0;
    check(cudaEventElapsedTime(&ms, start, stop), "event");
    if (i > 0) times.push_back(ms);
  }
  check(cudaEventDestroy(start), "event");
  check(cudaEventDestroy(stop), "event");
  std::sort(times.begin(), times.end());
  return times.empty() ? 0 : times[times.size() / 2];
}

struct Figures {
  double error = 0, emulated = 0;
  int64_t odd = 0;  // not finite
};

bool run_case(Case& item, const Library& oracle, const Library& emulation, const Library& solution,
              bool is_timed) {
  cudaStream_t stream;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
  const size_t count = item.tensors.size();
  std::vector<std::vector<int64_t>> places(count), compact(count);
  std::vector<void*> inputs(count), expected(count), emulated(count), outputs(count),
      indices(count);
  std::vector<const void*> host(count);
  std::vector<MarathonSample> samples(count, MarathonSample{-1, 0, nullptr});
  std::vector<int64_t> shared_places;
  void* shared_indices = nullptr;
  for (size_t i = 0; i < count; ++i) {
    Tensor& tensor = item.tensors[i];
    tensor.device = allocate(tensor.bytes());
    inputs[i] = outputs[i] = expected[i] = emulated[i] = tensor.device;
    if (!tensor.is_output) {
      fill(tensor, 1000 + i);
      if (tensor.type == Type::int64) host[i] = tensor.host.data();
      continue;
    }
    check(cudaMemset(tensor.device, 0xff, tensor.bytes()), "poison");
    compact[i] = tensor.extents;
    if (item.places > 0 && tensor.sample_axis >= 0) {
      int64_t& extent = compact[i][tensor.sample_axis];
      if (shared_places.empty()) {
        for (int64_t p = 0; p < item.places; ++p)
          shared_places.push_back(p * (extent - 1) / (item.places - 1));
        shared_places.erase(std::unique(shared_places.begin(), shared_places.end()),
                            shared_places.end());
        shared_indices = allocate(static_cast<int64_t>(shared_places.size()) * 8);
        check(cudaMemcpy(shared_indices, shared_places.data(), shared_places.size() * 8,
                         cudaMemcpyHostToDevice),
              "copy");
      }
      places[i] = shared_places;
      extent = static_cast<int64_t>(shared_places.size());
      samples[i] = {tensor.sample_axis, extent, static_cast<const int64_t*>(shared_indices)};
    }
    int64_t elements = 1;
    for (const int64_t extent : compact[i]) elements *= extent;
    expected[i] = allocate(elements * 8);
    emulated[i] = allocate(elements * 8);
    check(cudaMemset(expected[i], 0xff, elements * 8), "poison");
    check(cudaMemset(emulated[i], 0xff, elements * 8), "poison");
  }
  const int64_t workspace_bytes =
      solution.workspace
          ? solution.workspace(item.dims.data(), static_cast<int64_t>(item.dims.size()))
          : 0;
  void* workspace = allocate(workspace_bytes);
  check(cudaMemset(workspace, 0xff, std::max<int64_t>(workspace_bytes, 256)), "poison");
  check(cudaDeviceSynchronize(), "prepare");

  MarathonArgs args = {1,
                       static_cast<int64_t>(item.dims.size()),
                       item.dims.data(),
                       static_cast<int64_t>(count),
                       nullptr,
                       workspace,
                       workspace_bytes,
                       stream,
                       host.data()};
  const int repeats = is_timed ? 4 : 1;
  args.tensors = expected.data();
  const double oracle_ms =
      call([&] { return oracle.oracle(&args, samples.data()); }, "oracle", stream, repeats);
  args.tensors = emulated.data();
  const double emulation_ms =
      call([&] { return emulation.oracle(&args, samples.data()); }, "emulation", stream, repeats);
  args.tensors = outputs.data();
  const double solution_ms =
      call([&] { return solution.run(&args); }, "solution", stream, is_timed ? 8 : 1);

  bool is_right = true;
  std::printf("%-22s", item.label.c_str());
  for (size_t i = 0; i < count; ++i) {
    Tensor& tensor = item.tensors[i];
    if (!tensor.is_output) continue;
    int64_t elements = 1;
    for (const int64_t extent : compact[i]) elements *= extent;
    std::vector<double> truth(elements), honest(elements);
    tensor.host.resize(tensor.bytes());
    check(cudaMemcpy(truth.data(), expected[i], elements * 8, cudaMemcpyDeviceToHost), "copy");
    check(cudaMemcpy(honest.data(), emulated[i], elements * 8, cudaMemcpyDeviceToHost), "copy");
    check(cudaMemcpy(tensor.host.data(), tensor.device, tensor.bytes(), cudaMemcpyDeviceToHost),
          "copy");
    double own = 0, other = 0, all = 0;
    int64_t odd = 0;
    for (int64_t e = 0; e < elements; ++e) {
      int64_t left = e, at = 0, stride = 1;
      for (size_t a = compact[i].size(); a-- > 0;) {
        const int64_t place = left % compact[i][a];
        left /= compact[i][a];
        const bool sampled = samples[i].axis == static_cast<int64_t>(a);
        at += (sampled ? places[i][place] : place) * stride;
        stride *= tensor.extents[a];
      }
      const double got = as_double(tensor.host.data() + at * bytes_of(tensor.type), tensor.type);
      const double said = tensor.type == Type::bf16 ? to_bf16(honest[e]) : honest[e];
      if (!std::isfinite(got) || !std::isfinite(said) || !std::isfinite(truth[e])) {
        ++odd;
        continue;
      }
      own += (got - truth[e]) * (got - truth[e]);
      other += (said - truth[e]) * (said - truth[e]);
      all += truth[e] * truth[e];
    }
    const double scale = all > 0 ? all : 1, error = std::sqrt(own / scale),
                 honest_error = std::sqrt(other / scale);
    std::printf("  %s %.2e (emulation %.2e)", tensor.name.c_str(), error, honest_error);
    if (odd > 0) std::printf(" %lld NOT FINITE", static_cast<long long>(odd));
    is_right = is_right && odd == 0 && error <= 1.5 * honest_error + 1e-4 && honest_error < 1e-2;
  }
  if (is_timed)
    std::printf("  oracle %.2f ms, emulation %.2f ms, solution %.4f ms", oracle_ms, emulation_ms,
                solution_ms);
  std::printf("  %s\n", is_right ? "ok" : "WRONG");
  std::fflush(stdout);
  for (size_t i = 0; i < count; ++i) {
    if (expected[i] != item.tensors[i].device) {
      check(cudaFree(expected[i]), "free");
      check(cudaFree(emulated[i]), "free");
    }
    check(cudaFree(item.tensors[i].device), "free");
  }
  check(cudaFree(workspace), "free");
  if (shared_indices) check(cudaFree(shared_indices), "free");
  check(cudaStreamDestroy(stream), "stream");
  return is_right;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) {
    std::fprintf(stderr, "task_smoke TASK ORACLE.so EMULATION.so SOLUTION.so [--time]\n");
    return 2;
  }
  const bool timed = argc > 5 && std::strcmp(argv[5], "--time") == 0;
  const Library oracle = open(argv[2]), emulation = open(argv[3]), solution = open(argv[4]);
  if (!oracle.oracle || !emulation.oracle || !solution.run) {
    std::fprintf(stderr, "an entry is missing\n");
    return 1;
  }
  int wrong = 0;
  const std::vector<Case> small = cases_of(argv[1], false);
  std::vector<Case> cases = cases_of(argv[1], timed);
  for (size_t i = 0; i < cases.size(); ++i)
    wrong += run_case(cases[i], oracle, emulation, solution, i >= small.size()) ? 0 : 1;
  return wrong > 0 ? 1 : 0;
}
