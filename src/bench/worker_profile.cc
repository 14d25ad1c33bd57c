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

Result<Task> read_task(const std::string& folder) {
  const std::string path = folder + "/task.toml";
  ParsedTask parsed = parse_task(TRY(read_file(path)), path);
  if (!parsed.ok()) return fail(Fault::invalid, path + " is not valid; see: marathon task check");
  return std::move(parsed.task);
}

Result<const Shape*> find_shape(const Task& task, const std::string& name) {
  for (const Shape& shape : task.shapes) {
    if (shape.name == name) return &shape;
  }
  return fail(Fault::not_found, "the task has no shape '" + name + "'");
}

// Every tensor of the shape, inputs drawn from a fixed seed.
Result<std::vector<Memory>> make_tensors(const Task& task, const Shape& shape) {
  std::vector<Memory> memories;
  for (const Tensor& tensor : task.tensors) {
    memories.push_back(allocate(TRY(elements_of(task, tensor, shape)) * bytes_of(tensor.dtype)));
    if (!memories.back()) return fail(Fault::no_space, "out of memory for the shape's tensors");
    if (tensor.role == Role::input)
      TRY(Sampler::make(task, tensor, shape)).fill(memories.back().get(), memories.size());
  }
  return memories;
}

Status call_many_times(void* library, MarathonArgs args, int64_t calls) {
  const auto run = reinterpret_cast<int (*)(const MarathonArgs*)>(::dlsym(library, "marathon_run"));
  const auto wish = reinterpret_cast<int64_t (*)(const int64_t*, int64_t)>(
      ::dlsym(library, "marathon_workspace_bytes"));
  if (!run) return fail(Fault::invalid, "it exports no marathon_run");
  args.workspace_bytes = wish ? wish(args.dims, args.dim_count) : 0;
  if (args.workspace_bytes < 0 || args.workspace_bytes > 1LL << 30)
    return fail(Fault::invalid, "it asks for a workspace of less than 0 or more than 1 GiB");
  const Memory workspace = allocate(args.workspace_bytes);
  args.workspace = workspace.get();
  for (int64_t call = 0; call < calls; ++call) {
    if (run(&args) != 0) return fail(Fault::invalid, "marathon_run refused the shape");
  }
  return {};
}

Status run(const Arguments& arguments) {
  const Task task = TRY(read_task(arguments.task_folder));
  const Shape& shape = *TRY(find_shape(task, arguments.shape));
  const std::vector<int64_t> dims = dims_of(task, shape);
  const std::vector<Memory> memories = TRY(make_tensors(task, shape));
  std::vector<void*> pointers;
  pointers.reserve(memories.size());
  for (const Memory& memory : memories) pointers.push_back(memory.get());
  void* library = ::dlopen(arguments.lib.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) return fail(Fault::invalid, ::dlerror());
  return call_many_times(library,
                         {1, static_cast<int64_t>(dims.size()), dims.data(),
                          static_cast<int64_t>(pointers.size()), pointers.data(), nullptr, 0, nullptr,
                          nullptr},
                         arguments.calls);
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
