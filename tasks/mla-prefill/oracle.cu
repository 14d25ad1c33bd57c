// MLA prefill by its definition, on the GPU: all in `real`, softmax over the visible keys of each
// row.
//
// As double it is the reference. As float it is the honest emulation: queries and latents are bf16
// as they come, probabilities are rounded to bf16 before the second product, scores and sums are
// fp32.
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include "marathon_kernel.h"

namespace {

constexpr int width = 512;  // of a latent as value; as key it has rope channels behind
constexpr int threads = 256, rows_a_block = 8, tile = 64;  // rows: a warp each; keys
constexpr int most_depth = 576;

struct Problem {
  const __nv_bfloat16 *q, *latent;  // [B, H, tokens, depth], [B, keys, depth]
  const int64_t* places;            // tokens that are computed; null: all
  int64_t rows, keys;               // rows of one sequence: H × places
  int64_t heads, tokens, count;
  int64_t offset;
  int depth;
  bool is_causal;

  __device__ int64_t token(int64_t row) const { return places ? places[row % count] : row % count; }
  __device__ const __nv_bfloat16* query(int64_t b, int64_t row) const {
    return q + ((b * heads + row / count) * tokens + token(row)) * depth;
  }
  // Keys before this one count.
  __device__ int64_t limit(int64_t, int64_t row) const {
    return is_causal ? min(max(token(row) + offset + 1, int64_t{0}), keys) : keys;
  }
};

// The sums of one row over one part of the keys, relative to `top`.
struct Part {
  real top, total, sum[width];
};

__device__ real warp_sum(real value) {
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(~0u, value, step);
  return value;
}
__device__ real warp_max(real value) {
  for (int step = 16; step > 0; step /= 2) value = max(value, __shfl_xor_sync(~0u, value, step));
  return value;
}

// 32 sums that are spread over 32 lanes: afterwards lane l has the whole of sum[l], in 31
// exchanges.
template <int step>
__device__ real sum_across(real (&sum)[32]) {
  const bool upper = threadIdx.x & step;
#pragma unroll
  for (int i = 0; i < step; ++i) {
    const real mine = upper ? sum[i + step] : sum[i], other = upper ? sum[i] : sum[i + step];
    sum[i] = mine + __shfl_xor_sync(~0u, other, step);
  }
  if constexpr (step > 1) return sum_across<step / 2>(sum);
  return sum[0];
}

__device__ float2 load_two(const __nv_bfloat16* from) {
  return __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(from));
}

// What the second product sees of a probability.
__device__ real as_operand(real p) {
#ifdef MARATHON_EMULATION
  return __bfloat162float(__float2bfloat16(p));
#else
  return p;
#endif
}

// A block has eight rows and one part of the keys, of `length` keys.
__global__ void __launch_bounds__(threads) attend(Problem p, int64_t length, Part* parts) {
  __shared__ real query[rows_a_block][most_depth];
  __shared__ real score[rows_a_block][tile];
  __shared__ real top[rows_a_block], total[rows_a_block], factor[rows_a_block];
  __shared__ int64_t limit[rows_a_block];
  const int thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
  const int64_t groups = (p.rows + rows_a_block - 1) / rows_a_block;
  const int64_t b = blockIdx.x / groups, first_row = blockIdx.x % groups * rows_a_block;
  const real infinite = INFINITY, scale = 1 / sqrt(static_cast<real>(p.depth));

  for (int r = 0; r < rows_a_block; ++r) {
    const bool is_there = first_row + r < p.rows;
    const __nv_bfloat16* q = is_there ? p.query(b, first_row + r) : nullptr;
    for (int d = thread; d < p.depth; d += threads) {
      query[r][d] = is_there ? static_cast<real>(__bfloat162float(q[d])) : static_cast<real>(0);
    }
    if (thread == 0) {
      limit[r] = is_there ? p.limit(b, first_row + r) : 0;
      top[r] = -infinite;
      total[r] = 0;
    }
  }
  __syncthreads();
  int64_t longest = 0;
  for (int r = 0; r < rows_a_block; ++r) longest = max(longest, limit[r]);
  const __nv_bfloat16* keys = p.latent + b * p.keys * p.depth;
  const int64_t begin = blockIdx.y * length, end = min(begin + length, longest);

  real sum[rows_a_block][2] = {};
  for (int64_t first = begin; first < end; first += tile) {
    // A warp has eight keys of the tile, four at a time, so that a query is read once for four.
    for (int half = 0; half < 2; ++half) {
      const int own = warp * 8 + half * 4;
      real dots[32] = {};
      for (int d = 2 * lane; d < p.depth; d += 64) {
        real x[4], y[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const int64_t key = first + own + j;
          const float2 two = key < end ? load_two(keys + key * p.depth + d) : make_float2(0, 0);
          x[j] = two.x;
          y[j] = two.y;
        }
#pragma unroll
        for (int r = 0; r < rows_a_block; ++r) {
          const real a = query[r][d], c = query[r][d + 1];
#pragma unroll
          for (int j = 0; j < 4; ++j) dots[j * rows_a_block + r] += a * x[j] + c * y[j];
        }
      }
      const real dot = sum_across<16>(dots);
      const int r = lane % rows_a_block, place = own + lane / rows_a_block;
      score[r][place] = first + place < min(end, limit[r]) ? scale * dot : -infinite;
    }
    __syncthreads();
    {
      const real a = score[warp][lane], c = score[warp][lane + 32], before = top[warp];
      const real now = max(before, warp_max(max(a, c)));
      const real pa = a == -infinite ? 0 : exp(a - now), pc = c == -infinite ? 0 : exp(c - now);
      const real change = before == -infinite ? 0 : exp(before - now), both = warp_sum(pa + pc);
      __syncwarp();
      score[warp][lane] = as_operand(pa);
      score[warp][lane + 32] = as_operand(pc);
      if (lane == 0) {
        top[warp] = now;
        factor[warp] = change;
        total[warp] = total[warp] * change + both;
      }
    }
    __syncthreads();
    const int count = static_cast<int>(min(static_cast<int64_t>(tile), end - first));
#pragma unroll
    for (int r = 0; r < rows_a_block; ++r) {
      sum[r][0] *= factor[r];
      sum[r][1] *= factor[r];
    }
    for (int j = 0; j < count; ++j) {
      const float2 two = load_two(keys + (first + j) * p.depth + 2 * thread);
      const real x = two.x, y = two.y;
#pragma unroll
      for (int r = 0; r < rows_a_block; ++r) {
        const real weight = score[r][j];
        sum[r][0] += weight * x;
        sum[r][1] += weight * y;
      }
    }
    __syncthreads();
  }
  for (int r = 0; r < rows_a_block && first_row + r < p.rows; ++r) {
    Part& part = parts[(b * p.rows + first_row + r) * gridDim.y + blockIdx.y];
    part.sum[2 * thread] = sum[r][0];
    part.sum[2 * thread + 1] = sum[r][1];
    if (thread == 0) {
      part.top = top[r];
      part.total = total[r];
    }
  }
}

// A block a row. Rows without a key are zero, their lse too.
__global__ void __launch_bounds__(threads)
    combine(const Part* all, int count, double* out, double* lse) {
  const Part* parts = all + static_cast<int64_t>(blockIdx.x) * count;
  const real infinite = INFINITY;
  real top = -infinite, total = 0, sum[2] = {};
  for (int i = 0; i < count; ++i) top = max(top, parts[i].top);
  for (int i = 0; i < count && top != -infinite; ++i) {
    if (parts[i].top == -infinite) continue;
    const real weight = exp(parts[i].top - top);
    total += weight * parts[i].total;
    for (int j = 0; j < 2; ++j) sum[j] += weight * parts[i].sum[2 * threadIdx.x + j];
  }
  const bool is_empty = top == -infinite;
  if (out) {
    for (int j = 0; j < 2; ++j)
      out[static_cast<int64_t>(blockIdx.x) * width + 2 * threadIdx.x + j] =
          is_empty ? 0 : sum[j] / total;
  }
  if (lse && threadIdx.x == 0) lse[blockIdx.x] = is_empty ? 0 : top + log(total);
}

// A null output is not wanted.
int run(const Problem& p, int64_t batches, double* out, double* lse, cudaStream_t stream) {
  constexpr int64_t enough_blocks = 528;
  const int64_t rows = batches * p.rows, tiles = max((p.keys + tile - 1) / tile, int64_t{1});
  if (rows == 0) return 0;
  const int64_t blocks = batches * ((p.rows + rows_a_block - 1) / rows_a_block);
  const int64_t wanted = min(max(enough_blocks / blocks, int64_t{1}), tiles);
  const int64_t length = (tiles + wanted - 1) / wanted * tile,
                count = (tiles * tile + length - 1) / length;
  Part* parts = nullptr;
  const size_t bytes = static_cast<size_t>(rows * count) * sizeof(Part);
  if (cudaMallocAsync(reinterpret_cast<void**>(&parts), bytes, stream) != cudaSuccess) return 2;
  const dim3 grid(static_cast<unsigned>(blocks), static_cast<unsigned>(count));
  attend<<<grid, threads, 0, stream>>>(p, length, parts);
  combine<<<static_cast<unsigned>(rows), threads, 0, stream>>>(parts, static_cast<int>(count), out,
                                                               lse);
  const bool launched = cudaGetLastError() == cudaSuccess;
  return cudaFreeAsync(parts, stream) == cudaSuccess && launched ? 0 : 2;
}

}  // namespace

extern "C" int marathon_oracle(const MarathonArgs* args, const MarathonSample* samples) {
  constexpr int out = 2, lse = 3;
  const int64_t* dims = args->dims;  // B, H, T, S, R, causal, offset
  void* const* t = args->tensors;    // q, latent, o, lse
  Problem problem = {};
  problem.q = static_cast<const __nv_bfloat16*>(t[0]);
  problem.latent = static_cast<const __nv_bfloat16*>(t[1]);
  problem.heads = dims[1];
  problem.tokens = dims[2];
  problem.keys = dims[3];
  problem.depth = width + static_cast<int>(dims[4]);
  problem.is_causal = dims[5] != 0;
  problem.offset = dims[6];
  if (problem.depth > most_depth || dims[4] % 64 != 0) return 1;
  const bool together =
      samples[out].indices == samples[lse].indices && samples[out].count == samples[lse].count;
  for (const int output : {out, lse}) {
    const MarathonSample& sample = samples[output];
    if (sample.axis >= 0 && sample.axis != 2) return 1;  // only tokens are independent
    if (output == lse && together) break;
    problem.places = sample.axis < 0 ? nullptr : sample.indices;
    problem.count = sample.axis < 0 ? problem.tokens : sample.count;
    problem.rows = problem.heads * problem.count;
    const int code = run(problem, dims[0], output == out ? static_cast<double*>(t[out]) : nullptr,
                         output == lse || together ? static_cast<double*>(t[lse]) : nullptr,
                         static_cast<cudaStream_t>(args->stream));
    if (code != 0) return code;
  }
  return 0;
}
