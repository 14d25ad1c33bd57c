// The fake driver's modules and functions: a cubin is a text,
//
//   fakecubin 1
//   kernel fill32_small cost_ns=5000 param_sizes=8,8,4 max_shared=65536
//
// and what a kernel does is told by its name (fake_kernels.cc). max_shared is the most dynamic
// shared memory that it may be given. Lines may stand in any order after the first; # begins a
// comment. The text may stand in an ELF file, right behind its header, so that what reads cubins
// reads it too.
#include <elf.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "fake_cuda.h"

namespace marathon::fake {

namespace {

constexpr const char* first_line = "fakecubin 1\n";
constexpr int64_t most_threads = 1024;
// cuda.h: CU_LAUNCH_PARAM_*.
const void* const extra_buffer = reinterpret_cast<const void*>(1);
const void* const extra_size = reinterpret_cast<const void*>(2);

// As a compiler lays parameters out: each at a multiple of its size's largest power of two, up
// to 8.
bool read_sizes(const std::string& text, CUfunc_st& function) {
  std::istringstream words(text);
  std::string word;
  size_t at = 0;
  while (std::getline(words, word, ',')) {
    char* end = nullptr;
    const size_t size = std::strtoul(word.c_str(), &end, 10);
    if (word.empty() || *end != '\0' || size == 0) return false;
    const size_t alignment = std::min<size_t>(size & (~size + 1), 8);
    at = (at + alignment - 1) / alignment * alignment;
    function.offsets.push_back(at);
    function.sizes.push_back(size);
    at += size;
  }
  return true;
}

bool read_word(const std::string& word, CUfunc_st& function) {
  const size_t equals = word.find('=');
  if (equals == std::string::npos) return false;
  const std::string name = word.substr(0, equals), value = word.substr(equals + 1);
  if (name == "param_sizes") return read_sizes(value, function);
  char* end = nullptr;
  const int64_t number = std::strtoll(value.c_str(), &end, 10);
  if (value.empty() || *end != '\0' || number < 0) return false;
  if (name == "cost_ns")
    function.cost_ns = number;
  else if (name == "max_shared")
    function.max_shared = static_cast<int>(number);
  else
    return false;
  return true;
}

bool read_line(const std::string& line, CUfunc_st& function) {
  std::istringstream words(line);
  std::string word;
  if (!(words >> word) || word != "kernel" || !(words >> function.name)) return false;
  while (words >> word) {
    if (!read_word(word, function)) return false;
  }
  function.dynamic_shared = std::min(default_dynamic_shared, function.max_shared);
  function.effect = effect_of(function.name);
  if (!function.effect)
    std::fprintf(stderr, "fake CUDA: no kernel does what %s says\n", function.name.c_str());
  return function.effect != nullptr;
}

void drop_module(CUmodule module) {
  for (const CUfunction function : module->functions) world().functions.erase(function);
  world().modules.erase(module);
}

}  // namespace

char* Launch::bytes_at(uint64_t address, int64_t bytes, bool to_write) {
  return reach(address, bytes, to_write);
}

bool has_function(CUfunction function) { return world().functions.has(function); }

CUresult make_call(CUfunction function, void** parameters, void** extra, KernelCall& call) {
  if (!has_function(function)) return CUDA_ERROR_INVALID_HANDLE;
  int64_t threads = 1;
  for (const unsigned size : call.block) threads *= size;
  for (const unsigned size : call.grid) {
    if (size == 0) return CUDA_ERROR_INVALID_VALUE;
  }
  if (threads < 1 || threads > most_threads ||
      call.shared > static_cast<unsigned>(function->dynamic_shared))
    return CUDA_ERROR_INVALID_VALUE;
  const char* packed = nullptr;
  size_t packed_bytes = 0;
  for (void** at = extra; at && *at; at += 2) {
    if (*at == extra_buffer) packed = static_cast<const char*>(at[1]);
    if (*at == extra_size) packed_bytes = *static_cast<const size_t*>(at[1]);
  }
  call.function = function;
  for (size_t i = 0; i < function->sizes.size(); ++i) {
    const size_t offset = function->offsets[i], size = function->sizes[i];
    const char* bytes = nullptr;
    if (parameters)
      bytes = static_cast<const char*>(parameters[i]);
    else if (packed && offset + size <= packed_bytes)
      bytes = packed + offset;
    if (!bytes) return CUDA_ERROR_INVALID_VALUE;
    call.parameters.emplace_back(bytes, size);
  }
  return CUDA_SUCCESS;
}

CUresult run_kernel(const KernelCall& call) {
  World& w = world();
  const int64_t number = ++w.kernels_run;
  if (!has_function(call.function)) return CUDA_ERROR_ILLEGAL_ADDRESS;  // its module was unloaded
  if (number == w.options.hang_at) return kernel_never_ends;
  if (number == w.options.illegal_access_at) return CUDA_ERROR_ILLEGAL_ADDRESS;
  if (number == w.options.ecc_at) return CUDA_ERROR_ECC_UNCORRECTABLE;
  w.clock_ns += static_cast<int64_t>(static_cast<double>(call.function->cost_ns) * w.options.slow);
  return call.function->effect({call.grid, call.block, call.shared, call.parameters, w.clock_ns});
}

// ---- modules

CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  const char* begin = static_cast<const char*>(image);
  if (std::memcmp(begin, ELFMAG, SELFMAG) == 0) begin += sizeof(Elf64_Ehdr);
  const std::string text = begin;
  if (!text.starts_with(first_line)) return CUDA_ERROR_INVALID_IMAGE;
  World& w = world();
  const CUmodule made = w.modules.make();
  std::istringstream lines(text.substr(std::strlen(first_line)));
  std::string line;
  while (std::getline(lines, line)) {
    line = line.substr(0, line.find('#'));
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const CUfunction function = w.functions.make();
    made->functions.push_back(function);
    function->module = made;
    if (!read_line(line, *function)) {
      drop_module(made);
      return CUDA_ERROR_INVALID_IMAGE;
    }
  }
  *module = made;
  return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule module) {
  if (!world().modules.has(module)) return CUDA_ERROR_INVALID_HANDLE;
  drop_module(module);
  return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  if (!world().modules.has(module)) return CUDA_ERROR_INVALID_HANDLE;
  for (const CUfunction one : module->functions) {
    if (one->name != name) continue;
    *function = one;
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_NOT_FOUND;
}

CUresult cuModuleGetFunctionCount(unsigned* count, CUmodule module) {
  if (!world().modules.has(module)) return CUDA_ERROR_INVALID_HANDLE;
  *count = static_cast<unsigned>(module->functions.size());
  return CUDA_SUCCESS;
}

// ---- functions

CUresult cuFuncGetAttribute(int* value, CUfunction_attribute which, CUfunction function) {
  if (!has_function(function)) return CUDA_ERROR_INVALID_HANDLE;
  switch (which) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      *value = function->dynamic_shared;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      *value = function->carveout;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
      *value = function->non_portable_cluster;
      return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute which, int value) {
  if (!has_function(function)) return CUDA_ERROR_INVALID_HANDLE;
  switch (which) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      if (value < 0 || value > function->max_shared) return CUDA_ERROR_INVALID_VALUE;
      function->dynamic_shared = value;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      if (value < -1 || value > 100) return CUDA_ERROR_INVALID_VALUE;
      function->carveout = value;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
      function->non_portable_cluster = value != 0;
      return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuFuncGetName(const char** name, CUfunction function) {
  if (!has_function(function)) return CUDA_ERROR_INVALID_HANDLE;
  *name = function->name.c_str();
  return CUDA_SUCCESS;
}

CUresult cuFuncGetModule(CUmodule* module, CUfunction function) {
  if (!has_function(function)) return CUDA_ERROR_INVALID_HANDLE;
  *module = function->module;
  return CUDA_SUCCESS;
}

CUresult cuFuncGetParamInfo(CUfunction function, size_t index, size_t* offset, size_t* size) {
  if (!has_function(function)) return CUDA_ERROR_INVALID_HANDLE;
  if (index >= function->sizes.size()) return CUDA_ERROR_INVALID_VALUE;
  *offset = function->offsets[index];
  if (size) *size = function->sizes[index];
  return CUDA_SUCCESS;
}

// A kernel of a library is a function here; there are no libraries to load it from.
CUresult cuKernelGetFunction(CUfunction* function, CUkernel kernel) {
  const CUfunction same = reinterpret_cast<CUfunction>(kernel);
  if (!has_function(same)) return CUDA_ERROR_INVALID_HANDLE;
  *function = same;
  return CUDA_SUCCESS;
}

CUresult cuKernelGetName(const char** name, CUkernel kernel) {
  return fake::cuFuncGetName(name, reinterpret_cast<CUfunction>(kernel));
}

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                        CUstream stream, void** parameters, void** extra) {
  Work work;
  work.type = CU_GRAPH_NODE_TYPE_KERNEL;
  KernelCall& call = work.kernel;
  const unsigned grid[3] = {grid_x, grid_y, grid_z}, block[3] = {block_x, block_y, block_z};
  std::copy_n(grid, 3, call.grid);
  std::copy_n(block, 3, call.block);
  call.shared = shared;
  if (const CUresult wrong = make_call(function, parameters, extra, call)) return wrong;
  return enqueue(stream, std::move(work));
}

}  // namespace marathon::fake
