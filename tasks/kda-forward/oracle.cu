// KDA forward by its definition, on the GPU.
//
// As double it is the recurrence, token by token: a warp a column of V, because the columns of a
// state never meet. As the honest emulation (float) it is the chunk form with 32 tokens: every
// operand of a matrix product is rounded to bf16 once, sums and the state are fp32. The recurrence
// with rounded operands was refused as emulation: with equal keys it corrects its own rounding in
// each token, which no chunk can do, and errs by a tenth of what any honest kernel errs by.
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include "marathon_kernel.h"

namespace {

constexpr int width = 128;  // K and V
constexpr double norm_epsilon = 1e-6, lowest_gate = -5;

struct Inputs {
  const __nv_bfloat16 *q, *k, *v, *gate;  // [tokens, H, 128]
  const __nv_bfloat16* beta;              // [tokens, H]
  const float *a_log, *dt_bias, *start;   // [H], [H, 128], [N, H, 128, 128]
  const int64_t* offsets;                 // [N + 1]
  int64_t heads;
};

// Which columns of V are computed and where they go. A null output is not wanted.
struct Columns {
  const int64_t* indices;  // null: all in order
  int count;
  double *out, *last;  // [tokens, H, count], [N, H, 128, count]

  __device__ int column(int place) const {
    return indices ? static_cast<int>(indices[place]) : place;
  }
};

__device__ real as_real(__nv_bfloat16 x) { return __bfloat162float(x); }

__device__ real warp_sum(real value) {
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(~0u, value, step);
  return value;
}

__device__ real sigmoid(real x) { return 1 / (1 + exp(-x)); }

#ifndef MARATHON_EMULATION

constexpr int warps = 8, tile = 16;

__global__ void __launch_bounds__(warps * 32) recurrence(Inputs in, Columns columns) {
  __shared__ real decay[tile][width];
  __shared__ float key[tile][width], query[tile][width];  // as given: exact
  __shared__ real key_factor[tile], query_factor[tile], beta[tile], value[tile][warps];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int64_t n = blockIdx.x / in.heads, h = blockIdx.x % in.heads;
  const int place = blockIdx.y * warps + warp;
  const bool is_wanted = place < columns.count;
  const int column = columns.column(is_wanted ? place : 0);
  const int64_t begin = in.offsets[n], end = in.offsets[n + 1],
                state_at = (n * in.heads + h) * width;
  const real rate = exp(static_cast<real>(in.a_log[h]));

  // Lane l holds the channels l, l + 32, l + 64, l + 96.
  real state[4], bias[4];
  for (int j = 0; j < 4; ++j) {
    const int channel = lane + 32 * j;
    state[j] = in.start[(state_at + channel) * width + column];
    bias[j] = in.dt_bias[h * width + channel];
  }
  for (int64_t first = begin; first < end; first += tile) {
    const int tokens = static_cast<int>(min(static_cast<int64_t>(tile), end - first));
    __syncthreads();
    for (int t = warp; t < tokens; t += warps) {
      const int64_t row = (first + t) * in.heads + h;
      real key_sum = 0, query_sum = 0;
      for (int j = 0; j < 4; ++j) {
        const int channel = lane + 32 * j;
        const real k = as_real(in.k[row * width + channel]),
                   q = as_real(in.q[row * width + channel]);
        key[t][channel] = static_cast<float>(k);
        query[t][channel] = static_cast<float>(q);
        key_sum += k * k;
        query_sum += q * q;
        const real gate =
            lowest_gate * sigmoid(rate * (as_real(in.gate[row * width + channel]) + bias[j]));
        decay[t][channel] = exp(gate);
      }
      key_sum = warp_sum(key_sum);
      query_sum = warp_sum(query_sum);
      if (lane == 0) {
        key_factor[t] = 1 / sqrt(key_sum + norm_epsilon);
        query_factor[t] = 1 / sqrt(query_sum + norm_epsilon) / sqrt(static_cast<real>(width));
        beta[t] = sigmoid(as_real(in.beta[row]));
      }
      if (lane < warps) {
        const int other = blockIdx.y * warps + lane;
        value[t][lane] = other < columns.count ? as_real(in.v[row * width + columns.column(other)])
                                               : static_cast<real>(0);
      }
    }
    __syncthreads();
    for (int t = 0; t < tokens; ++t) {
      real read = 0, k[4];
      for (int j = 0; j < 4; ++j) {
        const int channel = lane + 32 * j;
        k[j] = key[t][channel] * key_factor[t];
        state[j] *= decay[t][channel];
        read += state[j] * k[j];
      }
      const real u = beta[t] * (value[t][warp] - warp_sum(read));
      real out = 0;
      for (int j = 0; j < 4; ++j) {
        state[j] += k[j] * u;
        out += state[j] * query[t][lane + 32 * j];
      }
      out = warp_sum(out) * query_factor[t];
      if (is_wanted && lane == 0 && columns.out)
        columns.out[((first + t) * in.heads + h) * columns.count + place] = out;
    }
  }
  if (!is_wanted || !columns.last) return;
  for (int j = 0; j < 4; ++j)
    columns.last[(state_at + lane + 32 * j) * columns.count + place] = state[j];
}

cudaError_t launch(const Inputs& in, const Columns& columns, int64_t sequences,
                   cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(sequences * in.heads), (columns.count + warps - 1) / warps);
  recurrence<<<grid, warps * 32, 0, stream>>>(in, columns);
  return cudaGetLastError();
}

#else

constexpr int threads = 256, chunk = 32, group = 16;  // columns a block
constexpr int stride = width + 1;                     // no two rows in one bank

struct Shared {
  real sum[chunk][stride];  // of the gate, from the chunk's first token on
  real key[chunk][stride], query[chunk][stride];
  real left_k[chunk][stride], left_q[chunk][stride], right[chunk][stride];
  real state[width][group], rounded[width][group];
  real value[chunk][group], update[chunk][group];
  real among_keys[chunk][chunk + 1], among_queries[chunk][chunk + 1], inverse[chunk][chunk + 1];
  real beta[chunk];
};

__device__ real to_bf16(real x) { return __bfloat162float(__float2bfloat16(x)); }

// q, k (normalised), gate, beta and v of one chunk. What lies past the end is zero and changes
// nothing.
__device__ void load_chunk(const Inputs& in, const Columns& columns, int64_t first, int tokens,
                           int64_t h, Shared& s) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const real rate = exp(static_cast<real>(in.a_log[h]));
  for (int t = warp; t < chunk; t += threads / 32) {
    const bool is_there = t < tokens;
    const int64_t row = (first + (is_there ? t : 0)) * in.heads + h;
    real k[4], q[4], key_sum = 0, query_sum = 0;
    for (int j = 0; j < 4; ++j) {
      const int channel = lane + 32 * j;
      k[j] = is_there ? as_real(in.k[row * width + channel]) : 0.f;
      q[j] = is_there ? as_real(in.q[row * width + channel]) : 0.f;
      key_sum += k[j] * k[j];
      query_sum += q[j] * q[j];
      const real raw = as_real(in.gate[row * width + channel]) + in.dt_bias[h * width + channel];
      s.sum[t][channel] =
          is_there ? static_cast<real>(lowest_gate) * sigmoid(rate * raw) : static_cast<real>(0);
    }
    const real key_factor = 1 / sqrt(warp_sum(key_sum) + static_cast<real>(norm_epsilon));
    const real query_factor = 1 / sqrt(warp_sum(query_sum) + static_cast<real>(norm_epsilon));
    for (int j = 0; j < 4; ++j) {
      s.key[t][lane + 32 * j] = k[j] * key_factor;
      s.query[t][lane + 32 * j] = q[j] * query_factor;
    }
    if (lane == 0) s.beta[t] = is_there ? sigmoid(as_real(in.beta[row])) : static_cast<real>(0);
    if (lane < group) {
      const int place = blockIdx.y * group + lane;
      s.value[t][lane] = is_there && place < columns.count
                             ? as_real(in.v[row * width + columns.column(place)])
                             : static_cast<real>(0);
    }
  }
}

// left_k = k e^(G - from), left_q = q e^(G - from), right = k e^(to - G), rounded. `from` and `to`
// are rows of G, or 0 where the row is -1.
__device__ void make_operands(Shared& s, int from, int to) {
  for (int i = threadIdx.x; i < chunk * width; i += threads) {
    const int t = i / width, channel = i % width;
    const real g = s.sum[t][channel];
    const real up = exp(g - (from < 0 ? 0 : s.sum[from][channel]));
    s.left_k[t][channel] = to_bf16(s.key[t][channel] * up);
    s.left_q[t][channel] = to_bf16(s.query[t][channel] * up);
    s.right[t][channel] = to_bf16(s.key[t][channel] * exp(s.sum[to][channel] - g));
  }
}

__global__ void __launch_bounds__(threads) chunks(Inputs in, Columns columns) {
  extern __shared__ __align__(16) char memory[];
  Shared& s = *reinterpret_cast<Shared*>(memory);
  const int thread = threadIdx.x;
  const int64_t n = blockIdx.x / in.heads, h = blockIdx.x % in.heads;
  const int64_t begin = in.offsets[n], end = in.offsets[n + 1],
                state_at = (n * in.heads + h) * width;
  const int own = thread % group, own_place = blockIdx.y * group + own;
  const bool is_wanted = own_place < columns.count;
  const int column = columns.column(is_wanted ? own_place : 0);
  const real scale = 1 / sqrt(static_cast<real>(width));

  for (int d = thread / group; d < width; d += threads / group) {
    s.state[d][own] = in.start[(state_at + d) * width + column];
    s.rounded[d][own] = to_bf16(s.state[d][own]);
  }
  for (int64_t first = begin; first < end; first += chunk) {
    const int tokens = static_cast<int>(min(static_cast<int64_t>(chunk), end - first));
    __syncthreads();
    load_chunk(in, columns, first, tokens, h, s);
    __syncthreads();
    if (thread < width) {
      for (int t = 1; t < chunk; ++t) s.sum[t][thread] += s.sum[t - 1][thread];
    }
    __syncthreads();
    // Around the middle no factor passes e^80.
    make_operands(s, chunk / 2, chunk / 2);
    __syncthreads();
    for (int pair = thread; pair < chunk * chunk; pair += threads) {
      const int i = pair / chunk, j = pair % chunk;
      real keys = 0, queries = 0;
      if (i >= j) {
        for (int d = 0; d < width; ++d) {
          keys += s.left_k[i][d] * s.right[j][d];
          queries += s.left_q[i][d] * s.right[j][d];
        }
      }
      s.among_keys[i][j] = i > j ? s.beta[i] * keys : static_cast<real>(0);
      s.among_queries[i][j] = to_bf16(queries);
    }
    __syncthreads();
    // (I + A)^-1 row by row, a column a lane.
    if (thread < chunk) {
      for (int i = 0; i < chunk; ++i) {
        real sum = i == thread ? 1 : 0;
        for (int l = 0; l < i; ++l) sum -= s.among_keys[i][l] * s.inverse[l][thread];
        s.inverse[i][thread] = sum;
      }
    }
    make_operands(s, -1, chunk - 1);
    __syncthreads();
    for (int t = thread / group; t < chunk; t += threads / group) {
      real read = 0;
      for (int d = 0; d < width; ++d) read += s.left_k[t][d] * s.rounded[d][own];
      s.value[t][own] = to_bf16(s.beta[t] * (s.value[t][own] - read));
    }
    __syncthreads();
    for (int t = thread / group; t < chunk; t += threads / group) {
      real sum = 0;
      for (int l = 0; l <= t; ++l) sum += to_bf16(s.inverse[t][l]) * s.value[l][own];
      s.update[t][own] = to_bf16(sum);
    }
    __syncthreads();
    for (int t = thread / group; t < tokens; t += threads / group) {
      real sum = 0;
      for (int d = 0; d < width; ++d) sum += s.left_q[t][d] * s.rounded[d][own];
      for (int l = 0; l <= t; ++l) sum += s.among_queries[t][l] * s.update[l][own];
      if (is_wanted && columns.out)
        columns.out[((first + t) * in.heads + h) * columns.count + own_place] = scale * sum;
    }
    __syncthreads();
    for (int d = thread / group; d < width; d += threads / group) {
      real sum = exp(s.sum[chunk - 1][d]) * s.state[d][own];
      for (int t = 0; t < chunk; ++t) sum += s.right[t][d] * s.update[t][own];
      s.state[d][own] = sum;
      s.rounded[d][own] = to_bf16(sum);
    }
  }
  __syncthreads();
  if (!is_wanted || !columns.last) return;
  for (int d = thread / group; d < width; d += threads / group)
    columns.last[(state_at + d) * columns.count + own_place] = s.state[d][own];
}

cudaError_t launch(const Inputs& in, const Columns& columns, int64_t sequences,
                   cudaStream_t stream) {
  const cudaError_t allowed = cudaFuncSetAttribute(
      chunks, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(sizeof(Shared)));
  if (allowed != cudaSuccess) return allowed;
  const dim3 grid(static_cast<unsigned>(sequences * in.heads), (columns.count + group - 1) / group);
  chunks<<<grid, threads, sizeof(Shared), stream>>>(in, columns);
  return cudaGetLastError();
}

#endif

Columns columns_of(const MarathonSample& sample) {
  if (sample.axis < 0) return {nullptr, width, nullptr, nullptr};
  return {sample.indices, static_cast<int>(sample.count), nullptr, nullptr};
}

}  // namespace

extern "C" int marathon_oracle(const MarathonArgs* args, const MarathonSample* samples) {
  constexpr int out = 9, last = 10;
  const int64_t heads = args->dims[2], sequences = args->dims[3];
  void* const* t = args->tensors;
  const Inputs in = {
      static_cast<const __nv_bfloat16*>(t[0]), static_cast<const __nv_bfloat16*>(t[1]),
      static_cast<const __nv_bfloat16*>(t[2]), static_cast<const __nv_bfloat16*>(t[3]),
      static_cast<const __nv_bfloat16*>(t[4]), static_cast<const float*>(t[5]),
      static_cast<const float*>(t[6]),         static_cast<const float*>(t[7]),
      static_cast<const int64_t*>(t[8]),       heads};
  for (const int output : {out, last}) {
    if (samples[output].axis >= 0 && samples[output].axis != 3) return 1;  // only V is independent
  }
  if (sequences * heads == 0) return 0;
  const cudaStream_t stream = static_cast<cudaStream_t>(args->stream);
  Columns columns = columns_of(samples[out]);
  columns.out = static_cast<double*>(t[out]);
  const bool together =
      samples[out].indices == samples[last].indices && samples[out].count == samples[last].count;
  if (together) columns.last = static_cast<double*>(t[last]);
  if (launch(in, columns, sequences, stream) != cudaSuccess) return 2;
  if (together) return 0;
  columns = columns_of(samples[last]);
  columns.last = static_cast<double*>(t[last]);
  return launch(in, columns, sequences, stream) == cudaSuccess ? 0 : 2;
}
