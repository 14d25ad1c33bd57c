// MLA prefill in one kernel: a block a head and 64 query tokens walks over all latents that they
// see.
//
// A tile of 32 latents is read once into shared memory and used twice, as keys and (its first 512
// channels) as values. Scores go through shared memory, the 64 × 512 sums stay in registers.
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include "marathon_kernel.h"

namespace {

// ---- PTX in one line each

__device__ __forceinline__ uint32_t shared_address(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}
__device__ __forceinline__ void ldmatrix_x4(uint32_t (&r)[4], const void* p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(p))
               : "memory");
}
__device__ __forceinline__ void ldmatrix_x4_trans(uint32_t (&r)[4], const void* p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(p))
               : "memory");
}
// d [16, 8] += a [16, 16] b [16, 8]
__device__ __forceinline__ void mma_bf16(float (&d)[4], const uint32_t (&a)[4], const uint32_t* b) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
// 16 bytes, of which `bytes` come from `from` and the rest are zeros.
__device__ __forceinline__ void copy_async(void* to, const void* from, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from),
               "r"(bytes)
               : "memory");
}
__device__ __forceinline__ void commit_copies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int left>
__device__ __forceinline__ void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(left) : "memory");
}

// ---- fragments of tiles in shared memory; `tile` points at its first element

// [16, 16], row-major, as the left operand.
template <int stride>
__device__ void load_left(uint32_t (&a)[4], const __nv_bfloat16* tile, int lane) {
  ldmatrix_x4(a, tile + (lane % 16) * stride + lane / 16 * 8);
}
// [k 16, n 16], row-major, as two right operands: b[0..1] and b[2..3].
template <int stride>
__device__ void load_right(uint32_t (&b)[4], const __nv_bfloat16* tile, int lane) {
  ldmatrix_x4_trans(b, tile + (lane % 16) * stride + lane / 16 * 8);
}
// The same of the transposed: the tile in memory is [n, k].
template <int stride>
__device__ void load_right_of_transposed(uint32_t (&b)[4], const __nv_bfloat16* tile, int lane) {
  ldmatrix_x4(b, tile + (lane % 8 + lane / 16 * 8) * stride + lane / 8 % 2 * 8);
}

// [n 8, k 32] of the transposed as right operands of two steps of k: b[0..1] and b[2..3].
template <int stride>
__device__ void load_narrow_right_of_transposed(uint32_t (&b)[4], const __nv_bfloat16* tile,
                                                int lane) {
  ldmatrix_x4(b, tile + lane % 8 * stride + lane / 8 * 8);
}

__device__ void store_two(__nv_bfloat16* to, float a, float b) {
  *reinterpret_cast<__nv_bfloat162*>(to) = __floats2bfloat162_rn(a, b);
}

// ---- rows against keys

constexpr int width = 512, threads = 256, warps = 8;  // columns of a value; a warp has 64 of them
constexpr float log2_e = 1.44269504f, ln_2 = 0.69314718f;

// A block holds `rows` queries and walks over its keys, `keys` at a time, in two buffers.
template <int rows, int keys, int depth>
struct Attention {
  static constexpr int stride = depth + 8, p_stride = keys + 8;  // rows start in other banks
  static constexpr int row_tiles = rows / 16, warps_a_tile = warps / row_tiles;
  static constexpr int warp_keys = keys / warps_a_tile;
  static constexpr int lanes_a_row = threads / rows, lane_keys = keys / lanes_a_row;
  static_assert(warp_keys == 8 || warp_keys == 16);

  struct Shared {
    __nv_bfloat16 query[rows][stride], key[2][keys][stride], p[rows][p_stride];
    float score[rows][keys + 4];
    float top[rows], total[rows], factor[rows];
  };

  // [count of rows that are there, depth], dense from `from` on; the rest becomes zero.
  template <int count>
  static __device__ void copy_rows(__nv_bfloat16 (*to)[stride], const __nv_bfloat16* from,
                                   int64_t there) {
    constexpr int pieces = depth / 8;
    for (int i = threadIdx.x; i < count * pieces; i += threads) {
      const int row = i / pieces, piece = i % pieces * 8;
      const bool is_there = row < there;
      copy_async(&to[row][piece], from + (is_there ? row * depth + piece : 0), is_there ? 16 : 0);
    }
  }

  // Sums p · values over the keys [begin, end) into `sum`, relative to s.top (in powers of two),
  // the sum of p into s.total. limit(row): keys before this one count for the row.
  template <class Limit>
  static __device__ void run(Shared& s, const __nv_bfloat16* query, int64_t queries,
                             const __nv_bfloat16* latent, int64_t begin, int64_t end,
                             const Limit& limit, float (&sum)[row_tiles][8][4]) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const float scale = log2_e * rsqrtf(static_cast<float>(depth));
    for (int r = threadIdx.x; r < rows; r += threads) s.top[r] = -INFINITY, s.total[r] = 0;
    copy_rows<rows>(s.query, query, queries);
    copy_rows<keys>(s.key[0], latent + begin * depth, end - begin);
    commit_copies();
    const int m0 = warp / warps_a_tile * 16, n0 = warp % warps_a_tile * warp_keys;
    int now = 0;
    for (int64_t first = begin; first < end; first += keys, now ^= 1) {
      wait_copies<0>();
      __syncthreads();
      if (first + keys < end) {
        copy_rows<keys>(s.key[now ^ 1], latent + (first + keys) * depth, end - first - keys);
      }
      commit_copies();

      float score[warp_keys / 8][4] = {};
      for (int d = 0; d < depth; d += 32) {
        uint32_t a[2][4], b[2][4];
        load_left<stride>(a[0], &s.query[m0][d], lane);
        load_left<stride>(a[1], &s.query[m0][d + 16], lane);
        if constexpr (warp_keys == 16) {
          for (int k = 0; k < 2; ++k) {
            load_right_of_transposed<stride>(b[k], &s.key[now][n0][d + 16 * k], lane);
            mma_bf16(score[0], a[k], b[k]);
            mma_bf16(score[1], a[k], b[k] + 2);
          }
        } else {
          load_narrow_right_of_transposed<stride>(b[0], &s.key[now][n0][d], lane);
          mma_bf16(score[0], a[0], b[0]);
          mma_bf16(score[0], a[1], b[0] + 2);
        }
      }
      for (int n = 0; n < warp_keys / 8; ++n) {
        for (int i = 0; i < 4; ++i) {
          const int row = m0 + lane / 4 + i / 2 * 8, column = n0 + 8 * n + lane % 4 * 2 + i % 2;
          s.score[row][column] = first + column < limit(row) ? scale * score[n][i] : -INFINITY;
        }
      }
      __syncthreads();

      const int row = threadIdx.x / lanes_a_row, column = threadIdx.x % lanes_a_row * lane_keys;
      float p[lane_keys], top = s.top[row], total = 0;
      const float before = top;
      for (int i = 0; i < lane_keys; ++i) {
        p[i] = s.score[row][column + i];
        top = fmaxf(top, p[i]);
      }
      for (int step = 1; step < lanes_a_row; step *= 2)
        top = fmaxf(top, __shfl_xor_sync(~0u, top, step));
      for (int i = 0; i < lane_keys; ++i) {
        p[i] = top == -INFINITY ? 0 : exp2f(p[i] - top);
        total += p[i];
      }
      for (int i = 0; i < lane_keys; i += 2) store_two(&s.p[row][column + i], p[i], p[i + 1]);
      for (int step = 1; step < lanes_a_row; step *= 2) total += __shfl_xor_sync(~0u, total, step);
      if (column == 0) {
        const float factor = before == -INFINITY ? 0 : exp2f(before - top);
        s.factor[row] = factor;
        s.total[row] = s.total[row] * factor + total;
        s.top[row] = top;
      }
      // The largest score of a row rarely changes after the first tiles.
      if (__syncthreads_or(top != before)) {
        for (int m = 0; m < row_tiles; ++m) {
          const float low = s.factor[16 * m + lane / 4], high = s.factor[16 * m + lane / 4 + 8];
          for (int n = 0; n < 8; ++n) {
            sum[m][n][0] *= low, sum[m][n][1] *= low;
            sum[m][n][2] *= high, sum[m][n][3] *= high;
          }
        }
      }
      for (int k = 0; k < keys; k += 16) {
        uint32_t a[row_tiles][4];
        for (int m = 0; m < row_tiles; ++m) load_left<p_stride>(a[m], &s.p[16 * m][k], lane);
        for (int n = 0; n < 8; n += 2) {
          uint32_t b[4];
          load_right<stride>(b, &s.key[now][k][64 * warp + 8 * n], lane);
          for (int m = 0; m < row_tiles; ++m) {
            mma_bf16(sum[m][n], a[m], b);
            mma_bf16(sum[m][n + 1], a[m], b + 2);
          }
        }
      }
    }
    wait_copies<0>();
    __syncthreads();
  }
};

// ---- prefill

constexpr int block_rows = 64, block_keys = 32;

struct Problem {
  const __nv_bfloat16 *q, *latent;
  __nv_bfloat16* out;
  float* lse;
  int64_t heads, tokens, keys, offset;
  bool is_causal;
};

template <int depth>
__global__ void __launch_bounds__(threads, 1) prefill(Problem p) {
  using Kernel = Attention<block_rows, block_keys, depth>;
  extern __shared__ __align__(16) char memory[];
  typename Kernel::Shared& s = *reinterpret_cast<typename Kernel::Shared*>(memory);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  // The last tokens see the most keys: they begin first.
  const int64_t first = static_cast<int64_t>(gridDim.x - 1 - blockIdx.x) * block_rows;
  const int64_t head = static_cast<int64_t>(blockIdx.z) * p.heads + blockIdx.y;
  const int64_t there = min(p.tokens - first, static_cast<int64_t>(block_rows));
  const auto limit = [&](int64_t row) {
    return p.is_causal ? min(max(first + row + p.offset + 1, int64_t{0}), p.keys) : p.keys;
  };
  float sum[Kernel::row_tiles][8][4] = {};
  Kernel::run(s, p.q + (head * p.tokens + first) * depth, there,
              p.latent + blockIdx.z * p.keys * depth, 0, limit(there - 1), limit, sum);
  for (int m = 0; m < Kernel::row_tiles; ++m) {
    for (int half = 0; half < 2; ++half) {
      const int row = 16 * m + lane / 4 + 8 * half;
      if (row >= there) continue;
      const float total = s.total[row], factor = total > 0 ? 1 / total : 0;
      __nv_bfloat16* to =
          p.out + (head * p.tokens + first + row) * width + 64 * warp + lane % 4 * 2;
      for (int n = 0; n < 8; ++n)
        store_two(to + 8 * n, factor * sum[m][n][2 * half], factor * sum[m][n][2 * half + 1]);
    }
  }
  if (threadIdx.x < there) {
    const float total = s.total[threadIdx.x];
    p.lse[head * p.tokens + first + threadIdx.x] =
        total > 0 ? s.top[threadIdx.x] * ln_2 + logf(total) : 0;
  }
}

template <int depth>
int launch(const Problem& p, int64_t batches, cudaStream_t stream) {
  const int bytes =
      static_cast<int>(sizeof(typename Attention<block_rows, block_keys, depth>::Shared));
  if (cudaFuncSetAttribute(prefill<depth>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes) !=
      cudaSuccess)
    return 1;
  const dim3 grid(static_cast<unsigned>((p.tokens + block_rows - 1) / block_rows),
                  static_cast<unsigned>(p.heads), static_cast<unsigned>(batches));
  prefill<depth><<<grid, threads, bytes, stream>>>(p);
  return cudaGetLastError() == cudaSuccess ? 0 : 2;
}

}  // namespace

extern "C" int marathon_run(const MarathonArgs* args) {
  const int64_t* dims = args->dims;  // B, H, T, S, R, causal, offset
  void* const* t = args->tensors;    // q, latent, o, lse
  const Problem p = {static_cast<const __nv_bfloat16*>(t[0]),
                     static_cast<const __nv_bfloat16*>(t[1]),
                     static_cast<__nv_bfloat16*>(t[2]),
                     static_cast<float*>(t[3]),
                     dims[1],
                     dims[2],
                     dims[3],
                     dims[6],
                     dims[5] != 0};
  const cudaStream_t stream = static_cast<cudaStream_t>(args->stream);
  if (dims[0] * p.heads * p.tokens == 0) return 0;
  if (dims[4] == 0) return launch<512>(p, dims[0], stream);
  if (dims[4] == 64) return launch<576>(p, dims[0], stream);
  return 3;
}
