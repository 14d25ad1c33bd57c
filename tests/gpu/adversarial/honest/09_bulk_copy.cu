// expect: same|slower|faster
// cp.async.bulk into shared memory behind an mbarrier
#include "prefix.cuh"

__global__ void prefix(Prefix p) {
  __shared__ alignas(16) float starts[prefix_threads];
  __shared__ alignas(8) uint64_t barrier;
  const int64_t first = int64_t{blockIdx.x} * blockDim.x, i = channel();
  Prefix from = p;
  if (first + prefix_threads <= p.c && p.c % 4 == 0) {
    const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(&barrier));
    const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(starts));
    if (threadIdx.x == 0) {
      asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(at) : "memory");
      asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
      asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(at),
                   "r"(prefix_threads * 4)
                   : "memory");
      asm volatile(
          "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, "
          "[%3];" ::"r"(to),
          "l"(p.start + first), "r"(prefix_threads * 4), "r"(at)
          : "memory");
    }
    __syncthreads();
    unsigned ready = 0;
    while (!ready)
      asm volatile(
          "{\n.reg .pred p;\nmbarrier.try_wait.parity.shared.b64 p, [%1], 0;\n"
          "selp.u32 %0, 1, 0, p;\n}"
          : "=r"(ready)
          : "r"(at)
          : "memory");
    from.start = starts - first;
  }
  solve(from, i);
}

extern "C" int marathon_run(const MarathonArgs* args) {
  const Prefix p = prefix_of(args);
  prefix<<<blocks_of(p), prefix_threads, 0, stream_of(args)>>>(p);
  return done();
}
