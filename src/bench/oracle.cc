#include "bench/oracle.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <utility>

#include "marathon_kernel.h"

namespace marathon {

Result<Oracle> Oracle::load(const std::filesystem::path& library, int64_t real_bytes) {
  void* handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    return fail(Fault::invalid, fmt::format("the oracle does not load: {}", ::dlerror()));
  Oracle oracle;
  oracle.handle_ = handle;
  oracle.real_bytes_ = real_bytes;
  oracle.entry_ = ::dlsym(handle, "marathon_oracle");
  if (!oracle.entry_)
    return fail(Fault::invalid, "the oracle exports no marathon_oracle (extern \"C\")");
  return oracle;
}

Oracle::Oracle(Oracle&& other) noexcept
    : handle_(std::exchange(other.handle_, nullptr)),
      entry_(other.entry_),
      real_bytes_(other.real_bytes_) {}

Oracle::~Oracle() {
  if (handle_) ::dlclose(handle_);
}

Status Oracle::run(const Task& task, Problem& problem) const {
  return real_bytes_ == 4 ? run_as<float>(task, problem) : run_as<double>(task, problem);
}

template <class Real>
Status Oracle::run_as(const Task& task, Problem& problem) const {
  std::vector<AlignedVector<Real>> reals(task.tensors.size());
  std::vector<AlignedVector<int64_t>> wholes(task.tensors.size());
  std::vector<void*> pointers(task.tensors.size());
  for (size_t i = 0; i < task.tensors.size(); ++i) {
    const Values& from = problem.tensors[i];
    if (is_floating(task.tensors[i].dtype) && std::is_same_v<Real, double>) {
      pointers[i] = problem.tensors[i].data();  // already what it wants: no copy
    } else if (is_floating(task.tensors[i].dtype)) {
      reals[i].assign(from.begin(), from.end());
      pointers[i] = reals[i].data();
    } else {
      wholes[i].assign(from.begin(), from.end());
      pointers[i] = wholes[i].data();
    }
  }
  MarathonArgs args = {};
  args.abi = 1;
  args.dim_count = static_cast<int64_t>(problem.dims.size());
  args.dims = problem.dims.data();
  args.tensor_count = static_cast<int64_t>(pointers.size());
  args.tensors = pointers.data();
  const int code = reinterpret_cast<int (*)(const MarathonArgs*)>(entry_)(&args);
  if (code != 0)
    return fail(Fault::invalid,
                fmt::format("the task's oracle refused a shape (it returned {})", code));
  for (size_t i = 0; i < task.tensors.size(); ++i) {
    if (task.tensors[i].role != Role::output) continue;
    if (is_floating(task.tensors[i].dtype) && std::is_same_v<Real, double>) continue;
    if (is_floating(task.tensors[i].dtype))
      problem.tensors[i].assign(reals[i].begin(), reals[i].end());
    else
      problem.tensors[i].assign(wholes[i].begin(), wholes[i].end());
  }
  return {};
}

}  // namespace marathon
