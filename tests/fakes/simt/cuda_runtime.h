// Enough of CUDA to run an oracle's kernels on the host: blocks one after another, the threads of a
// block in turns that change where they wait for each other. For g++, with `name<<<…>>>(…)` written
// as a call of simt::launch beforehand (src/bench/cuda/oracle_test.cc does that).
#pragma once

#include <math.h>
#include <setjmp.h>
#include <ucontext.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <vector>

#define __global__
#define __device__
#define __shared__ static  // one block runs at a time
#define __launch_bounds__(...)

using std::max;
using std::min;

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  dim3(unsigned x_, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};
inline dim3 threadIdx(0), blockIdx(0), blockDim(1), gridDim(1);

struct float2 {
  float x, y;
};
inline float2 make_float2(float x, float y) { return {x, y}; }

using cudaStream_t = void*;
enum cudaError_t { cudaSuccess = 0, cudaErrorInvalidValue = 1 };
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize };
inline cudaError_t cudaGetLastError() { return cudaSuccess; }
template <class F>
cudaError_t cudaFuncSetAttribute(F, cudaFuncAttribute, int) {
  return cudaSuccess;
}
inline cudaError_t cudaMallocAsync(void** memory, size_t bytes, cudaStream_t) {
  *memory = std::malloc(std::max<size_t>(bytes, 1));
  return cudaSuccess;
}
inline cudaError_t cudaFreeAsync(void* memory, cudaStream_t) {
  std::free(memory);
  return cudaSuccess;
}

namespace simt {

constexpr unsigned warp = 32;
constexpr size_t stack_bytes = 128 << 10;

// Where `expected` threads wait for each other. Who has ended counts as there.
struct Barrier {
  unsigned expected = 0, arrived = 0, turn = 0;
  void step() {
    if (arrived == 0 || arrived < expected) return;
    arrived = 0;
    ++turn;
  }
};

struct Thread {
  ucontext_t start;
  jmp_buf place;
  std::vector<char> stack = std::vector<char>(stack_bytes);
  bool began = false, ended = false;
  unsigned parity = 0;
};

struct Warp {
  Barrier barrier;
  uint64_t slots[2][warp];
};

struct Block {
  std::vector<Thread> threads;
  std::vector<Warp> warps;
  Barrier barrier;
  std::vector<char> shared;
  std::function<void()> body;
  unsigned now = 0;
  jmp_buf scheduler;
  ucontext_t scheduler_context;
};
inline Block block;

inline void pause() {
  const unsigned own = block.now;
  if (_setjmp(block.threads[own].place) == 0) _longjmp(block.scheduler, 1);
  threadIdx.x = own;
}

inline void wait_at(Barrier& barrier) {
  const unsigned turn = barrier.turn;
  ++barrier.arrived;
  barrier.step();
  while (barrier.turn == turn) pause();
}

inline void run_thread() {
  block.body();
  block.threads[block.now].ended = true;
  for (Barrier* barrier : {&block.barrier, &block.warps[block.now / warp].barrier}) {
    --barrier->expected;
    barrier->step();
  }
  _longjmp(block.scheduler, 1);
}

inline void resume(unsigned index) {
  Thread& thread = block.threads[index];
  block.now = threadIdx.x = index;
  if (_setjmp(block.scheduler) != 0) return;
  if (thread.began) _longjmp(thread.place, 1);
  thread.began = true;
  ::getcontext(&thread.start);
  thread.start.uc_stack = {thread.stack.data(), 0, thread.stack.size()};
  thread.start.uc_link = nullptr;
  ::makecontext(&thread.start, run_thread, 0);
  ::setcontext(&thread.start);
}

inline void run_block() {
  for (Thread& thread : block.threads) thread.began = thread.ended = false;
  const unsigned count = static_cast<unsigned>(block.threads.size());
  block.barrier = {count};
  for (unsigned w = 0; w < block.warps.size(); ++w)
    block.warps[w].barrier = {std::min(warp, count - w * warp)};
  for (unsigned left = count; left > 0;) {
    left = 0;
    for (unsigned i = 0; i < count; ++i) {
      if (!block.threads[i].ended) resume(i);
      left += block.threads[i].ended ? 0 : 1;
    }
  }
}

// One axis of threads is all that the oracles use.
inline void launch(std::function<void()> body, dim3 grid, dim3 threads, size_t shared = 0,
                   cudaStream_t = nullptr) {
  block.body = std::move(body);
  block.threads.resize(threads.x);
  block.warps.resize((threads.x + warp - 1) / warp);
  block.shared.resize(shared + 16);
  gridDim = grid;
  blockDim = threads;
  for (blockIdx.z = 0; blockIdx.z < grid.z; ++blockIdx.z) {
    for (blockIdx.y = 0; blockIdx.y < grid.y; ++blockIdx.y) {
      for (blockIdx.x = 0; blockIdx.x < grid.x; ++blockIdx.x) run_block();
    }
  }
}

inline char* dynamic_shared() {
  return block.shared.data() + (16 - reinterpret_cast<uintptr_t>(block.shared.data()) % 16) % 16;
}

}  // namespace simt

inline void __syncthreads() { simt::wait_at(simt::block.barrier); }
inline void __syncwarp() { simt::wait_at(simt::block.warps[simt::block.now / simt::warp].barrier); }

template <class T>
T __shfl_xor_sync(unsigned, T value, int step) {
  static_assert(sizeof(T) <= 8);
  const unsigned own = simt::block.now, lane = own % simt::warp;
  simt::Warp& warp = simt::block.warps[own / simt::warp];
  uint64_t(&slots)[simt::warp] = warp.slots[simt::block.threads[own].parity ^= 1];
  std::memcpy(&slots[lane], &value, sizeof value);
  simt::wait_at(warp.barrier);
  T other;
  std::memcpy(&other, &slots[lane ^ static_cast<unsigned>(step)], sizeof other);
  return other;
}
