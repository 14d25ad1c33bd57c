// Runs one implementation alone on inputs of its own, for perf and callgrind. Nothing is checked or
// timed.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "bench/inputs.h"
#include "bench/worker.h"
#include "core/task.h"
#include "marathon_kernel.h"

namespace marathon {

namespace {

struct Arguments {
  std::string lib, task_folder, shape;
  int64_t calls = 1;
};

struct Free {
  void operator()(char* data) const { std::free(data); }
};
using Memory = std::unique_ptr<char, Free>;

Memory allocate(int64_t bytes) {
  const size_t size = static_cast<size_t>((bytes + 4096) / 4096 * 4096);
  Memory memory(static_cast<char*>(std::aligned_alloc(4096, size)));
  if (memory) std::memset(memory.get(), 0, size);
  return memory;
}

Status run(const Arguments& arguments) {
  const std::string path = arguments.task_folder + "/task.toml";
  const ParsedTask parsed = parse_task(TRY(read_file(path)), path);
  if (!parsed.ok()) return fail(Fault::invalid, path + " is not valid; see: marathon task check");
  const Task& task = parsed.task;
  const Shape* shape = nullptr;
  for (const Shape& one : task.shapes) {
    if (one.name == arguments.shape) shape = &one;
  }
  if (!shape) return fail(Fault::not_found, "the task has no shape " + arguments.shape);
  void* handle = ::dlopen(arguments.lib.c_str(), RTLD_NOW);
  if (!handle) return fail(Fault::invalid, ::dlerror());
  const auto entry =
      reinterpret_cast<int (*)(const MarathonArgs*)>(::dlsym(handle, "marathon_run"));
  const auto wish = reinterpret_cast<int64_t (*)(const int64_t*, int64_t)>(
      ::dlsym(handle, "marathon_workspace_bytes"));
  if (!entry) return fail(Fault::invalid, "it exports no marathon_run");

  const std::vector<int64_t> dims = dims_of(task, *shape);
  std::vector<Memory> memories;
  std::vector<void*> pointers;
  for (const Tensor& tensor : task.tensors) {
    memories.push_back(allocate(TRY(elements_of(task, tensor, *shape)) * bytes_of(tensor.dtype)));
    pointers.push_back(memories.back().get());
    if (!memories.back()) return fail(Fault::no_space, "out of memory for the shape's tensors");
    if (tensor.role == Role::input)
      TRY(Sampler::make(task, tensor, *shape)).fill(memories.back().get(), memories.size());
  }
  const int64_t workspace_bytes = wish ? wish(dims.data(), static_cast<int64_t>(dims.size())) : 0;
  const Memory workspace = allocate(workspace_bytes);
  const MarathonArgs args{1,
                          static_cast<int64_t>(dims.size()),
                          dims.data(),
                          static_cast<int64_t>(pointers.size()),
                          pointers.data(),
                          workspace.get(),
                          workspace_bytes};
  for (int64_t call = 0; call < arguments.calls; ++call) {
    if (entry(&args) != 0) return fail(Fault::invalid, "marathon_run refused the shape");
  }
  return {};
}

}  // namespace

int worker_profile_main(int argc, char** argv) {
  Arguments arguments;
  for (int i = 0; i + 1 < argc; i += 2) {
    const std::string_view word = argv[i];
    if (word == "--lib")
      arguments.lib = argv[i + 1];
    else if (word == "--task-folder")
      arguments.task_folder = argv[i + 1];
    else if (word == "--shape")
      arguments.shape = argv[i + 1];
    else if (word == "--calls")
      arguments.calls = std::atoll(argv[i + 1]);
  }
  const Status done = run(arguments);
  if (done) return 0;
  std::fprintf(stderr, "marathon-worker: %s\n", done.error().what.c_str());
  return 1;
}

}  // namespace marathon
