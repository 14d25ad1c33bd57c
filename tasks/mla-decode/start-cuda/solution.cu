// MLA decode in two kernels: keys are split over blocks, then the parts are put together.
//
// All query tokens and heads of a sequence see the same latents, so a block takes 16 or 64 of these
// rows and one part of the keys. A tile of latents is read once into shared memory and used twice,
// as keys and (its first 512 channels) as values.
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

// ---- decode

constexpr int64_t multiprocessors = 132;

struct Problem {
  const __nv_bfloat16 *q, *latent;
  const int32_t* lengths;
  __nv_bfloat16* out;
  float *lse, *parts;  // of a part of a row: 512 sums, their top, their total
  int64_t rows, keys;  // rows of one sequence: Q H
  int64_t splits;
};
constexpr int part_floats = width + 4;

// Few rows a block where the card would be idle else: more blocks, each with fewer registers.
struct Plan {
  int rows;
  int64_t tiles, splits;
};
Plan plan_of(const int64_t* dims) {
  const int64_t rows = dims[1] * dims[2];
  Plan plan = {64, (rows + 63) / 64, 1};
  if (dims[0] * plan.tiles < multiprocessors / 4) plan = {16, (rows + 15) / 16, 1};
  const int64_t blocks = dims[0] * plan.tiles, most = (dims[3] + 63) / 64;
  if (blocks > 0) plan.splits = multiprocessors / blocks;
  if (plan.splits > most) plan.splits = most;
  if (plan.splits < 1) plan.splits = 1;
  return plan;
}

template <int rows, int keys, int depth>
__global__ void __launch_bounds__(threads, 1) attend(Problem p) {
  using Kernel = Attention<rows, keys, depth>;
  extern __shared__ __align__(16) char memory[];
  typename Kernel::Shared& s = *reinterpret_cast<typename Kernel::Shared*>(memory);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int64_t tiles = (p.rows + rows - 1) / rows, b = blockIdx.x / tiles;
  const int64_t first_row = b * p.rows + blockIdx.x % tiles * rows;
  const int64_t there = min(p.rows - blockIdx.x % tiles * rows, static_cast<int64_t>(rows));
  const int64_t length = min(static_cast<int64_t>(p.lengths[b]), p.keys);
  const int64_t share = ((length + p.splits - 1) / p.splits + keys - 1) / keys * keys;
  const int64_t begin = min(blockIdx.y * share, length), end = min(begin + share, length);
  float sum[Kernel::row_tiles][8][4] = {};
  Kernel::run(
      s, p.q + first_row * depth, there, p.latent + b * p.keys * depth, begin, end,
      [&](int64_t) { return end; }, sum);
  for (int m = 0; m < Kernel::row_tiles; ++m) {
    for (int half = 0; half < 2; ++half) {
      const int row = 16 * m + lane / 4 + 8 * half;
      if (row >= there) continue;
      float* to = p.parts + ((first_row + row) * p.splits + blockIdx.y) * part_floats + 64 * warp +
                  lane % 4 * 2;
      for (int n = 0; n < 8; ++n)
        *reinterpret_cast<float2*>(to + 8 * n) =
            make_float2(sum[m][n][2 * half], sum[m][n][2 * half + 1]);
    }
  }
  if (threadIdx.x < there) {
    float* part = p.parts + ((first_row + threadIdx.x) * p.splits + blockIdx.y) * part_floats;
    part[width] = s.top[threadIdx.x];
    part[width + 1] = s.total[threadIdx.x];
  }
}

// A block a row, four columns a thread.
__global__ void __launch_bounds__(width / 4) combine(Problem p) {
  const float* parts = p.parts + static_cast<int64_t>(blockIdx.x) * p.splits * part_floats;
  const int column = 4 * threadIdx.x;
  float top = -INFINITY, total = 0, sum[4] = {};
  for (int64_t i = 0; i < p.splits; ++i) top = fmaxf(top, parts[i * part_floats + width]);
  for (int64_t i = 0; i < p.splits && top != -INFINITY; ++i) {
    const float* part = parts + i * part_floats;
    const float weight = exp2f(part[width] - top);
    const float4 four = *reinterpret_cast<const float4*>(part + column);
    total += weight * part[width + 1];
    sum[0] += weight * four.x, sum[1] += weight * four.y;
    sum[2] += weight * four.z, sum[3] += weight * four.w;
  }
  const float factor = total > 0 ? 1 / total : 0;
  __nv_bfloat16* to = p.out + static_cast<int64_t>(blockIdx.x) * width + column;
  store_two(to, factor * sum[0], factor * sum[1]);
  store_two(to + 2, factor * sum[2], factor * sum[3]);
  if (threadIdx.x == 0) p.lse[blockIdx.x] = total > 0 ? top * ln_2 + logf(total) : 0;
}

template <int rows, int keys, int depth>
int launch(const Problem& p, int64_t blocks, cudaStream_t stream) {
  const int bytes = static_cast<int>(sizeof(typename Attention<rows, keys, depth>::Shared));
  const auto kernel = attend<rows, keys, depth>;
  if (cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes) !=
      cudaSuccess)
    return 1;
  const dim3 grid(static_cast<unsigned>(blocks), static_cast<unsigned>(p.splits));
  kernel<<<grid, threads, bytes, stream>>>(p);
  return cudaGetLastError() == cudaSuccess ? 0 : 2;
}

}  // namespace

extern "C" int64_t marathon_workspace_bytes(const int64_t* dims, int64_t) {
  return dims[0] * dims[1] * dims[2] * plan_of(dims).splits * part_floats *
         static_cast<int64_t>(sizeof(float));
}

extern "C" int marathon_run(const MarathonArgs* args) {
  const int64_t* dims = args->dims;  // B, Q, H, S, R, L
  void* const* t = args->tensors;    // q, latent, lengths, o, lse
  const Plan plan = plan_of(dims);
  const Problem p = {static_cast<const __nv_bfloat16*>(t[0]),
                     static_cast<const __nv_bfloat16*>(t[1]),
                     static_cast<const int32_t*>(t[2]),
                     static_cast<__nv_bfloat16*>(t[3]),
                     static_cast<float*>(t[4]),
                     static_cast<float*>(args->workspace),
                     dims[1] * dims[2],
                     dims[3],
                     plan.splits};
  const cudaStream_t stream = static_cast<cudaStream_t>(args->stream);
  const int64_t blocks = dims[0] * plan.tiles;
  int code = 3;
  if (blocks == 0) return 0;
  if (dims[4] == 0) {
    code = plan.rows == 16 ? launch<16, 64, 512>(p, blocks, stream)
                           : launch<64, 32, 512>(p, blocks, stream);
  } else if (dims[4] == 64) {
    code = plan.rows == 16 ? launch<16, 64, 576>(p, blocks, stream)
                           : launch<64, 32, 576>(p, blocks, stream);
  }
  if (code != 0) return code;
  combine<<<static_cast<unsigned>(dims[0] * p.rows), width / 4, 0, stream>>>(p);
  return cudaGetLastError() == cudaSuccess ? 0 : 2;
}
