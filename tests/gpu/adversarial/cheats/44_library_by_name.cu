// expect: rule_broken|wrong|crashed
// loads cuBLAS by its name and lets it scale the answer
#include "prefix.cuh"

extern "C" void* dlopen(const char*, int);
extern "C" void* dlsym(void*, const char*);

__global__ void prefix(Prefix p) { solve(p, channel()); }

static bool scale(const Prefix& p, cudaStream_t stream) {
  static void* library = dlopen("/usr/local/cuda/lib64/libcublas.so", 2);
  if (!library) return false;
  static void* handle = nullptr;
  if (!handle) reinterpret_cast<int (*)(void**)>(dlsym(library, "cublasCreate_v2"))(&handle);
  reinterpret_cast<int (*)(void*, cudaStream_t)>(dlsym(library, "cublasSetStream_v2"))(handle,
                                                                                       stream);
  const float one = 1;
  const auto scal = reinterpret_cast<int (*)(void*, int, const float*, float*, int)>(
      dlsym(library, "cublasSscal_v2"));
  return scal(handle, int(p.t * p.c), &one, p.y, 1) == 0;
}

extern "C" int marathon_run(const MarathonArgs* args) {
  const Prefix p = prefix_of(args);
  prefix<<<blocks_of(p), prefix_threads, 0, stream_of(args)>>>(p);
  if (!scale(p, stream_of(args))) cudaMemsetAsync(p.y, 0, 4 * p.t * p.c, stream_of(args));
  return done();
}
