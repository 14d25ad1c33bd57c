// KDA forward in two kernels, chunks of 32 tokens.
//
//   prepare   all chunks at once: norms, gates, and all that does not need the state
//   scan      a block a sequence, head and 32 columns of V walks over its chunks and carries the
//   state
//
// With G the sum of the gate inside a chunk (in powers of two), for each chunk and head:
//
//   from_k = k 2^G     from_q = K^-0.5 q 2^G     to_end = k 2^(G_last - G)
//   A[i,j] = beta_i (k_i 2^(G_i - a)) · (k_j 2^(a - G_j))  for i > j;  inverse = (I + A)^-1
//   diag(beta) among[i,j] = K^-0.5 (q_i 2^(G_i - a)) · (k_j 2^(a - G_j))  for i ≥ j
//
//   u = inverse (v - from_k S)     o = from_q S + among u     S = 2^G_last S + to_endᵀ u
//
// The anchor a is G in the middle of the chunk: from there no factor passes e^80 with gates of -5.
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include "marathon_kernel.h"

namespace {

constexpr int width = 128, chunk = 32;  // K = V, tokens
constexpr float log2_e = 1.44269504f, scale = 0.08838834764f;

struct Inputs {
  const __nv_bfloat16 *q, *k, *v, *gate, *beta;
  const float *a_log, *dt_bias, *start;
  const int64_t* offsets;  // [sequences + 1]
  int64_t heads, sequences;
};

// What `prepare` leaves for one chunk of one head.
struct Prepared {
  __nv_bfloat16 from_k[chunk][width], from_q[chunk][width], to_end[chunk][width];
  __nv_bfloat16 inverse[chunk][chunk], among[chunk][chunk];
  float decay[width];
};

// Sequence n has its chunks from here on: enough room for every tail, and no table is needed.
__device__ int64_t first_slot(const Inputs& in, int64_t n) { return in.offsets[n] / chunk + n; }

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
// The same of the transposed: the tile in memory is [k, m].
template <int stride>
__device__ void load_left_of_transposed(uint32_t (&a)[4], const __nv_bfloat16* tile, int lane) {
  ldmatrix_x4_trans(a, tile + (lane % 8 + lane / 16 * 8) * stride + lane / 8 % 2 * 8);
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

__device__ float sigmoid(float x) { return 1 / (1 + exp2f(-log2_e * x)); }

__device__ float warp_sum(float value) {
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(~0u, value, step);
  return value;
}

// Four bf16 at an address that is a multiple of 8 bytes.
__device__ void load_four(float (&x)[4], const __nv_bfloat16* from) {
  const uint2 bits = *reinterpret_cast<const uint2*>(from);
  const float2 a = __bfloat1622float2(reinterpret_cast<const __nv_bfloat162&>(bits.x));
  const float2 b = __bfloat1622float2(reinterpret_cast<const __nv_bfloat162&>(bits.y));
  x[0] = a.x, x[1] = a.y, x[2] = b.x, x[3] = b.y;
}
__device__ void store_two(__nv_bfloat16* to, float a, float b) {
  *reinterpret_cast<__nv_bfloat162*>(to) = __floats2bfloat162_rn(a, b);
}
__device__ void store_four(__nv_bfloat16* to, const float (&x)[4]) {
  store_two(to, x[0], x[1]);
  store_two(to + 2, x[2], x[3]);
}

// ---- prepare

constexpr int prepare_threads = 256, row = width + 8;  // 8 more: rows start in other banks
constexpr int system_row = chunk + 4;

struct PrepareShared {
  float sum[chunk][width];
  __nv_bfloat16 left_k[chunk][row], left_q[chunk][row], right[chunk][row];
  float system[chunk][system_row];  // A
  float beta[chunk];
};

__global__ void __launch_bounds__(prepare_threads) prepare(Inputs in, Prepared* all) {
  extern __shared__ __align__(16) char memory[];
  PrepareShared& s = *reinterpret_cast<PrepareShared*>(memory);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, channel = 4 * lane;
  const int64_t slot = blockIdx.x, h = blockIdx.y;

  // The last sequence whose chunks start at this slot or before it.
  int64_t n = 0, above = in.sequences;
  while (above - n > 1) {
    const int64_t middle = (n + above) / 2;
    (first_slot(in, middle) <= slot ? n : above) = middle;
  }
  const int64_t first = in.offsets[n] + (slot - first_slot(in, n)) * chunk;
  const int64_t left = in.offsets[n + 1] - first;
  if (left <= 0) return;
  const int tokens = left < chunk ? static_cast<int>(left) : chunk;
  Prepared& out = all[slot * in.heads + h];

  // A warp has four tokens, a lane four channels. Past the end all is zero.
  const float rate = exp2f(log2_e * in.a_log[h]);
  float k[4][4], q[4][4];
  for (int i = 0; i < 4; ++i) {
    const int t = 4 * warp + i;
    const int64_t at = ((first + min(t, tokens - 1)) * in.heads + h) * width + channel;
    float gate[4], key_sum = 0, query_sum = 0;
    load_four(k[i], in.k + at);
    load_four(q[i], in.q + at);
    load_four(gate, in.gate + at);
    for (int j = 0; j < 4; ++j) {
      key_sum += k[i][j] * k[i][j];
      query_sum += q[i][j] * q[i][j];
    }
    const float is_there = t < tokens ? 1 : 0;
    const float key_factor = is_there * rsqrtf(warp_sum(key_sum) + 1e-6f);
    const float query_factor = is_there * scale * rsqrtf(warp_sum(query_sum) + 1e-6f);
    for (int j = 0; j < 4; ++j) {
      k[i][j] *= key_factor;
      q[i][j] *= query_factor;
      const float raw = gate[j] + in.dt_bias[h * width + channel + j];
      s.sum[t][channel + j] = t < tokens ? -5 * log2_e * sigmoid(rate * raw) : 0.f;
    }
    if (lane == 0) {
      s.beta[t] = t < tokens ? sigmoid(__bfloat162float(in.beta[(first + t) * in.heads + h])) : 0.f;
    }
  }
  __syncthreads();
  if (threadIdx.x < width) {
    float sum = 0;
    for (int t = 0; t < chunk; ++t) s.sum[t][threadIdx.x] = sum += s.sum[t][threadIdx.x];
    out.decay[threadIdx.x] = exp2f(sum);
  }
  __syncthreads();
  for (int i = 0; i < 4; ++i) {
    const int t = 4 * warp + i;
    float left_k[4], left_q[4], right[4], from_k[4], from_q[4], to_end[4];
    for (int j = 0; j < 4; ++j) {
      const float g = s.sum[t][channel + j], anchor = s.sum[chunk / 2][channel + j];
      const float up = exp2f(g - anchor), decay = exp2f(g);
      left_k[j] = k[i][j] * up;
      left_q[j] = q[i][j] * up;
      right[j] = k[i][j] * exp2f(anchor - g);
      from_k[j] = k[i][j] * decay;
      from_q[j] = q[i][j] * decay;
      to_end[j] = k[i][j] * exp2f(s.sum[chunk - 1][channel + j] - g);
    }
    store_four(&s.left_k[t][channel], left_k);
    store_four(&s.left_q[t][channel], left_q);
    store_four(&s.right[t][channel], right);
    store_four(&out.from_k[t][channel], from_k);
    store_four(&out.from_q[t][channel], from_q);
    store_four(&out.to_end[t][channel], to_end);
  }
  __syncthreads();
  {
    // Warps 0 … 3: among keys, 4 … 7: queries against keys; 16 × 16 each.
    const bool of_keys = warp < 4;
    const int i0 = warp / 2 % 2 * 16, j0 = warp % 2 * 16;
    float sum[2][4] = {};
    for (int d = 0; d < width; d += 16) {
      uint32_t a[4], b[4];
      load_left<row>(a, of_keys ? &s.left_k[i0][d] : &s.left_q[i0][d], lane);
      load_right_of_transposed<row>(b, &s.right[j0][d], lane);
      mma_bf16(sum[0], a, b);
      mma_bf16(sum[1], a, b + 2);
    }
    for (int tile = 0; tile < 2; ++tile) {
      for (int half = 0; half < 2; ++half) {
        const int i = i0 + lane / 4 + 8 * half, j = j0 + 8 * tile + lane % 4 * 2;
        const float x = sum[tile][2 * half], y = sum[tile][2 * half + 1];
        // By choice, not by multiplying: above the diagonal may stand infinity.
        if (of_keys) {
          s.system[i][j] = i > j ? s.beta[i] * x : 0.f;
          s.system[i][j + 1] = i > j + 1 ? s.beta[i] * y : 0.f;
        } else {
          store_two(&out.among[i][j], i >= j ? x : 0.f, i >= j + 1 ? y : 0.f);
        }
      }
    }
  }
  __syncthreads();
  if (warp != 0) return;
  // Row by row, a column a lane: an inverse by powers of A is wrong where keys are alike.
  float column[chunk];
  const float beta = s.beta[lane];
#pragma unroll
  for (int i = 0; i < chunk; ++i) {
    float sum = i == lane ? 1 : 0;
#pragma unroll
    for (int l = 0; l < i; ++l) sum -= s.system[i][l] * column[l];
    column[i] = sum;
    out.inverse[i][lane] = __float2bfloat16(sum * beta);
  }
}

// ---- scan

constexpr int scan_threads = 128, part = 32;  // columns of V a block
constexpr int parts = width / part, small_row = 32 + 8;

struct Stage {
  __nv_bfloat16 from_k[chunk][row], from_q[chunk][row], to_end[chunk][row];
  __nv_bfloat16 inverse[chunk][small_row], among[chunk][small_row], value[chunk][small_row];
  float decay[width];
};
struct ScanShared {
  Stage stages[2];
  __nv_bfloat16 state[width][small_row], rest[chunk][small_row], update[chunk][small_row];
};

// `rows` rows of `bytes` bytes, dense in global memory, `stride` bytes apart in shared memory.
__device__ void copy_rows(void* to, const void* from, int rows, int bytes, int stride) {
  const int pieces = bytes / 16;
  for (int i = threadIdx.x; i < rows * pieces; i += scan_threads)
    copy_async(static_cast<char*>(to) + i / pieces * stride + i % pieces * 16,
               static_cast<const char*>(from) + static_cast<int64_t>(i) * 16, 16);
}

__device__ void load_stage(Stage& s, const Prepared& from, const __nv_bfloat16* value,
                           int64_t stride, int tokens) {
  copy_rows(s.from_k, from.from_k, chunk, width * 2, row * 2);
  copy_rows(s.from_q, from.from_q, chunk, width * 2, row * 2);
  copy_rows(s.to_end, from.to_end, chunk, width * 2, row * 2);
  copy_rows(s.inverse, from.inverse, chunk, chunk * 2, small_row * 2);
  copy_rows(s.among, from.among, chunk, chunk * 2, small_row * 2);
  copy_rows(s.decay, from.decay, 1, width * 4, width * 4);
  const int t = threadIdx.x / 4, piece = threadIdx.x % 4 * 8;
  copy_async(&s.value[t][piece], value + min(t, tokens - 1) * stride + piece, t < tokens ? 16 : 0);
}

// sum [16, 16] += left [16, depth] right [depth, 16]
template <int depth, int left_stride>
__device__ void multiply(float (&sum)[2][4], const __nv_bfloat16* left, const __nv_bfloat16* right,
                         int lane) {
  for (int d = 0; d < depth; d += 16) {
    uint32_t a[4], b[4];
    load_left<left_stride>(a, left + d, lane);
    load_right<small_row>(b, right + d * small_row, lane);
    mma_bf16(sum[0], a, b);
    mma_bf16(sum[1], a, b + 2);
  }
}

__global__ void __launch_bounds__(scan_threads)
    scan(Inputs in, const Prepared* all, __nv_bfloat16* out, float* last) {
  extern __shared__ __align__(16) char memory[];
  ScanShared& s = *reinterpret_cast<ScanShared*>(memory);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int first_column = blockIdx.x % parts * part;
  const int64_t n = blockIdx.x / parts / in.heads, h = blockIdx.x / parts % in.heads;
  const int64_t begin = in.offsets[n], end = in.offsets[n + 1];
  const int64_t stride = in.heads * width, slot = first_slot(in, n);
  const int64_t state_at = (n * in.heads + h) * width * width + first_column;
  const __nv_bfloat16* value = in.v + h * width + first_column;
  const int chunks = static_cast<int>((end - begin + chunk - 1) / chunk);
  const auto tokens_of = [&](int c) {
    const int64_t left = end - begin - static_cast<int64_t>(c) * chunk;
    return left < chunk ? static_cast<int>(left) : chunk;
  };
  const auto load = [&](int c) {
    if (c < chunks) {
      load_stage(s.stages[c % 2], all[(slot + c) * in.heads + h],
                 value + (begin + static_cast<int64_t>(c) * chunk) * stride, stride, tokens_of(c));
    }
    commit_copies();
  };
  load(0);

  // A warp holds 32 channels of K and all columns of the part, in fp32; shared memory has them in
  // bf16.
  const int own_k = 32 * warp, r = lane / 4, c2 = lane % 4 * 2;
  float state[2][4][4];
  for (int m = 0; m < 2; ++m) {
    for (int j = 0; j < 4; ++j) {
      for (int half = 0; half < 2; ++half) {
        const int d = own_k + 16 * m + r + 8 * half, column = 8 * j + c2;
        const float2 x = *reinterpret_cast<const float2*>(in.start + state_at + d * width + column);
        state[m][j][2 * half] = x.x;
        state[m][j][2 * half + 1] = x.y;
        store_two(&s.state[d][column], x.x, x.y);
      }
    }
  }
  // In products with 32 tokens × 32 columns a warp has 16 × 16.
  const int t0 = warp / 2 * 16, n0 = warp % 2 * 16;
  for (int c = 0; c < chunks; ++c) {
    wait_copies<0>();
    __syncthreads();
    load(c + 1);
    const Stage& in_stage = s.stages[c % 2];
    float sum[2][4] = {};
    multiply<width, row>(sum, in_stage.from_k[t0], &s.state[0][n0], lane);
    for (int tile = 0; tile < 2; ++tile) {
      for (int half = 0; half < 2; ++half) {
        const int t = t0 + r + 8 * half, column = n0 + 8 * tile + c2;
        const __nv_bfloat16* v = &in_stage.value[t][column];
        store_two(&s.rest[t][column], __bfloat162float(v[0]) - sum[tile][2 * half],
                  __bfloat162float(v[1]) - sum[tile][2 * half + 1]);
      }
    }
    __syncthreads();
    float update[2][4] = {};
    multiply<chunk, small_row>(update, in_stage.inverse[t0], &s.rest[0][n0], lane);
    for (int tile = 0; tile < 2; ++tile) {
      for (int half = 0; half < 2; ++half)
        store_two(&s.update[t0 + r + 8 * half][n0 + 8 * tile + c2], update[tile][2 * half],
                  update[tile][2 * half + 1]);
    }
    __syncthreads();
    float o[2][4] = {};
    multiply<width, row>(o, in_stage.from_q[t0], &s.state[0][n0], lane);
    multiply<chunk, small_row>(o, in_stage.among[t0], &s.update[0][n0], lane);
    const int tokens = tokens_of(c);
    for (int half = 0; half < 2; ++half) {
      const int t = t0 + r + 8 * half;
      if (t >= tokens) continue;
      __nv_bfloat16* to = out + (begin + static_cast<int64_t>(c) * chunk + t) * stride + h * width +
                          first_column + n0 + c2;
      for (int tile = 0; tile < 2; ++tile)
        store_two(to + 8 * tile, o[tile][2 * half], o[tile][2 * half + 1]);
    }
    for (int m = 0; m < 2; ++m) {
      const int d = own_k + 16 * m;
      const float low = in_stage.decay[d + r], high = in_stage.decay[d + r + 8];
      for (int j = 0; j < 4; ++j) {
        state[m][j][0] *= low, state[m][j][1] *= low;
        state[m][j][2] *= high, state[m][j][3] *= high;
      }
    }
    for (int t = 0; t < chunk; t += 16) {
      uint32_t a[2][4], b[2][4];
      for (int m = 0; m < 2; ++m)
        load_left_of_transposed<row>(a[m], &in_stage.to_end[t][own_k + 16 * m], lane);
      for (int j = 0; j < 2; ++j) load_right<small_row>(b[j], &s.update[t][16 * j], lane);
      for (int m = 0; m < 2; ++m) {
        for (int j = 0; j < 4; ++j) mma_bf16(state[m][j], a[m], b[j / 2] + j % 2 * 2);
      }
    }
    __syncthreads();  // the old state is read by all
    for (int m = 0; m < 2; ++m) {
      for (int j = 0; j < 4; ++j) {
        for (int half = 0; half < 2; ++half)
          store_two(&s.state[own_k + 16 * m + r + 8 * half][8 * j + c2], state[m][j][2 * half],
                    state[m][j][2 * half + 1]);
      }
    }
  }
  for (int m = 0; m < 2; ++m) {
    for (int j = 0; j < 4; ++j) {
      for (int half = 0; half < 2; ++half) {
        const int d = own_k + 16 * m + r + 8 * half;
        *reinterpret_cast<float2*>(last + state_at + d * width + 8 * j + c2) =
            make_float2(state[m][j][2 * half], state[m][j][2 * half + 1]);
      }
    }
  }
}

int64_t slots_of(const int64_t* dims) { return dims[0] * dims[1] / chunk + dims[3]; }

}  // namespace

extern "C" int64_t marathon_workspace_bytes(const int64_t* dims, int64_t) {
  return slots_of(dims) * dims[2] * static_cast<int64_t>(sizeof(Prepared));
}

extern "C" int marathon_run(const MarathonArgs* args) {
  void* const* t = args->tensors;
  const int64_t* dims = args->dims;  // B, T, H, N
  const Inputs in = {static_cast<const __nv_bfloat16*>(t[0]),
                     static_cast<const __nv_bfloat16*>(t[1]),
                     static_cast<const __nv_bfloat16*>(t[2]),
                     static_cast<const __nv_bfloat16*>(t[3]),
                     static_cast<const __nv_bfloat16*>(t[4]),
                     static_cast<const float*>(t[5]),
                     static_cast<const float*>(t[6]),
                     static_cast<const float*>(t[7]),
                     static_cast<const int64_t*>(t[8]),
                     dims[2],
                     dims[3]};
  Prepared* prepared = static_cast<Prepared*>(args->workspace);
  const cudaStream_t stream = static_cast<cudaStream_t>(args->stream);
  const int prepare_bytes = static_cast<int>(sizeof(PrepareShared));
  const int scan_bytes = static_cast<int>(sizeof(ScanShared));
  if (in.heads * in.sequences == 0) return 0;
  if (cudaFuncSetAttribute(prepare, cudaFuncAttributeMaxDynamicSharedMemorySize, prepare_bytes) ||
      cudaFuncSetAttribute(scan, cudaFuncAttributeMaxDynamicSharedMemorySize, scan_bytes))
    return 1;
  const dim3 chunks(static_cast<unsigned>(slots_of(dims)), static_cast<unsigned>(in.heads));
  prepare<<<chunks, prepare_threads, prepare_bytes, stream>>>(in, prepared);
  const dim3 blocks(static_cast<unsigned>(in.sequences * in.heads * parts));
  scan<<<blocks, scan_threads, scan_bytes, stream>>>(
      in, prepared, static_cast<__nv_bfloat16*>(t[9]), static_cast<float*>(t[10]));
  return cudaGetLastError() == cudaSuccess ? 0 : 2;
}
