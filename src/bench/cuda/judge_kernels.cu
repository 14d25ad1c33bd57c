// The judge's own kernels: drawing inputs, poison, sums of errors, the clock's helpers. Compiled by
// nvcc where the judge runs; a part of Marathon, never of a candidate.
//
// Data types by number, as in core/task.h: 0 fp32, 1 fp64, 2 bf16, 3 fp16, 4 int32, 5 int64.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>

namespace {

// splitmix64 (Steele et al. 2014) by counter.
__device__ uint64_t mixed(uint64_t seed, uint64_t i) {
  uint64_t z = seed + (i + 1) * 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

__device__ double load(const void* base, int type, int64_t i) {
  switch (type) {
    case 0: return static_cast<const float*>(base)[i];
    case 1: return static_cast<const double*>(base)[i];
    case 2: return __bfloat162float(static_cast<const __nv_bfloat16*>(base)[i]);
    case 3: return __half2float(static_cast<const __half*>(base)[i]);
    case 4: return static_cast<const int32_t*>(base)[i];
    default: return static_cast<double>(static_cast<const int64_t*>(base)[i]);
  }
}

__device__ void store(void* base, int type, int64_t i, double value) {
  switch (type) {
    case 0: static_cast<float*>(base)[i] = static_cast<float>(value); break;
    case 1: static_cast<double*>(base)[i] = value; break;
    case 2: static_cast<__nv_bfloat16*>(base)[i] = __double2bfloat16(value); break;
    case 3: static_cast<__half*>(base)[i] = __double2half(value); break;
    case 4: static_cast<int32_t*>(base)[i] = static_cast<int32_t>(llrint(value)); break;
    default: static_cast<int64_t*>(base)[i] = llrint(value); break;
  }
}

__device__ double rounded(int type, double value) {
  switch (type) {
    case 0: return static_cast<float>(value);
    case 2: return __bfloat162float(__double2bfloat16(value));
    case 3: return __half2float(__double2half(value));
    default: return value;
  }
}

// Box and Muller (1958), from the two halves of one number.
__device__ float normal(uint64_t bits) {
  const float u = (static_cast<uint32_t>(bits >> 32) + 1.0f) * 0x1p-32f;
  const float v = static_cast<uint32_t>(bits) * 0x1p-32f;
  return sqrtf(-2 * logf(fminf(u, 1.0f))) * cospif(2 * v);
}

__device__ double uniform(uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1p-53; }

// One value of a distribution, by the numbers of core/task.h's Distribution::Kind.
__device__ double draw(int kind, double a, double b, uint64_t seed, int64_t i, int64_t row) {
  const int64_t column = i % row;
  const uint64_t bits = mixed(seed, static_cast<uint64_t>(kind == 7 ? column : i));
  switch (kind) {
    case 0: case 7: return a + b * normal(bits);
    case 1: return a + (b - a) * uniform(bits);
    case 2: return exp(log(a) + (log(b) - log(a)) * uniform(bits));
    case 3: return a;
    case 4: return floor(a + (b - a + 1) * uniform(bits));
    case 5: return bits & 1 ? a : b;
    case 6: return column < row / 2 ? a : b;
    case 8: return -exp(log(a) + (log(b) - log(a)) * uniform(bits));
    default: {
      const double p = exp(log(a) + (log(b) - log(a)) * uniform(bits));
      return log(p / (1 - p));
    }
  }
}

__device__ double warp_sum(double value) {
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(~0u, value, step);
  return value;
}
__device__ double warp_max(double value) {
  for (int step = 16; step > 0; step /= 2)
    value = fmax(value, __shfl_xor_sync(~0u, value, step));
  return value;
}

__device__ int64_t global_thread() {
  return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ int64_t all_threads() { return static_cast<int64_t>(gridDim.x) * blockDim.x; }

// D += A B with 64 × 16 by 16 × 256 bf16 out of shared memory: what the tensor cores do at their
// fullest. `a` and `b` are matrix descriptors without swizzle.
__device__ void wgmma_64x256x16(float (&d)[128], uint64_t a, uint64_t b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
      "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
      "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
      "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
      "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127}, "
      "%128, %129, 1, 1, 1, 0, 0;\n"
      :
      "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
      "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
      "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
      "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),
      "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]),
      "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),
      "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
      "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63]),
      "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67]), "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71]),
      "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]), "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79]),
      "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]), "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87]),
      "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91]), "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95]),
      "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99]), "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), "+f"(d[103]),
      "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107]), "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), "+f"(d[111]),
      "+f"(d[112]), "+f"(d[113]), "+f"(d[114]), "+f"(d[115]), "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), "+f"(d[119]),
      "+f"(d[120]), "+f"(d[121]), "+f"(d[122]), "+f"(d[123]), "+f"(d[124]), "+f"(d[125]), "+f"(d[126]), "+f"(d[127])
      : "l"(a), "l"(b));
}

// Descriptor of a tile without swizzle: address, distances between its 8 × 16-byte pieces.
__device__ uint64_t descriptor(const void* shared) {
  const uint64_t address = __cvta_generic_to_shared(shared);
  return (address & 0x3ffff) >> 4 | uint64_t{128 >> 4} << 16 | uint64_t{256 >> 4} << 32;
}

}  // namespace

extern "C" {

// `count` values in rows of `row`. norm > 0: every row is scaled to that L2 norm; a warp a row then.
__global__ void marathon_fill(void* to, int type, int64_t count, int64_t row, int kind, double a,
                              double b, double norm, uint64_t seed) {
  if (norm <= 0) {
    for (int64_t i = global_thread(); i < count; i += all_threads())
      store(to, type, i, draw(kind, a, b, seed, i, row));
    return;
  }
  const int lane = threadIdx.x & 31;
  for (int64_t r = global_thread() / 32; r < count / row; r += all_threads() / 32) {
    double sum = 0;
    for (int64_t i = r * row + lane; i < (r + 1) * row; i += 32) {
      const double value = draw(kind, a, b, seed, i, row);
      sum += value * value;
    }
    sum = warp_sum(sum);
    const double factor = sum > 0 ? norm / sqrt(sum) : 0;
    for (int64_t i = r * row + lane; i < (r + 1) * row; i += 32)
      store(to, type, i, factor * draw(kind, a, b, seed, i, row));
  }
}

// Random bits over the words [begin, end) of 8 bytes.
__global__ void marathon_poison(uint64_t* to, int64_t begin, int64_t end, uint64_t seed) {
  for (int64_t i = begin + global_thread(); i < end; i += all_threads())
    to[i] = mixed(seed, static_cast<uint64_t>(i));
}

// The least index in [begin, end) whose byte is not the poison any more goes to *first.
__global__ void marathon_find_damage(const unsigned char* bytes, int64_t begin, int64_t end,
                                     uint64_t seed, unsigned long long* first) {
  for (int64_t i = begin + global_thread(); i < end; i += all_threads()) {
    const uint64_t word = mixed(seed, static_cast<uint64_t>(i / 8));
    if (bytes[i] != static_cast<unsigned char>(word >> (i % 8 * 8)))
      atomicMin(first, static_cast<unsigned long long>(i));
  }
}

// A sum that tells whether any word was changed or moved.
__global__ void marathon_digest(const uint64_t* words, int64_t count, unsigned long long* sum) {
  uint64_t own = 0;
  for (int64_t i = global_thread(); i < count; i += all_threads())
    own += mixed(words[i] ^ 0x2545f4914f6cdd1dull, static_cast<uint64_t>(i));
  for (int step = 16; step > 0; step /= 2) own += __shfl_xor_sync(~0u, own, step);
  if ((threadIdx.x & 31) == 0) atomicAdd(sum, static_cast<unsigned long long>(own));
}

// Reads everything and writes nothing that matters: fills L2 with clean lines.
__global__ void marathon_read(const ulonglong2* words, int64_t count, unsigned long long* sink) {
  unsigned long long sum = 0;
  for (int64_t i = global_thread(); i < count; i += all_threads()) {
    const ulonglong2 word = words[i];
    sum += word.x ^ word.y;
  }
  if (sum == 0x9e3779b97f4a7c15ull) *sink = sum;
}

struct MarathonRows {
  const void* output;      // `type`, of `full` extents
  const double* expected;  // of `compact` extents
  int type, round_to;      // the output is rounded to the type `round_to` before it is compared
  int rank, axis;          // axis -1: nothing is sampled
  int64_t full[8], compact[8];
  const int64_t* indices;  // places of the sampled axis
  int64_t row, cuts;       // elements of a row at most; rows along the last axis
  int64_t count;           // rows
};

// Of each row: sum of squared errors, sum of squared truths, largest error, and the index in the
// row of an element that is not finite where it should be or the other way round, plus 1.
struct MarathonRowSums {
  double error, truth, worst, odd;
};

// A warp a row.
__global__ void marathon_rows(MarathonRows job, MarathonRowSums* sums) {
  const int lane = threadIdx.x & 31;
  const int last = job.rank - 1;
  for (int64_t r = global_thread() / 32; r < job.count; r += all_threads() / 32) {
    const int64_t begin = r % job.cuts * job.row;
    const int64_t end = min(begin + job.row, job.compact[last]);
    int64_t left = r / job.cuts, base = 0, stride = job.full[last];
    for (int a = last - 1; a >= 0; --a) {
      const int64_t place = left % job.compact[a];
      left /= job.compact[a];
      base += (a == job.axis ? job.indices[place] : place) * stride;
      stride *= job.full[a];
    }
    const double* expected = job.expected + r / job.cuts * job.compact[last];
    double error = 0, truth = 0, worst = 0, odd = 0;
    for (int64_t c = begin + lane; c < end; c += 32) {
      const double want = expected[c];
      const double got = rounded(
          job.round_to,
          load(job.output, job.type, base + (last == job.axis ? job.indices[c] : c)));
      if (isfinite(want) && isfinite(got)) {
        const double e = got - want;
        error += e * e;
        truth += want * want;
        worst = fmax(worst, fabs(e));
      } else if (isnan(want) ? !isnan(got) : got != want) {
        odd = fmax(odd, static_cast<double>(c - begin + 1));
      }
    }
    error = warp_sum(error);
    truth = warp_sum(truth);
    worst = warp_max(worst);
    odd = warp_max(odd);
    if (lane == 0) sums[r] = {error, truth, worst, odd};
  }
}

// Spins for `spin_ns` and writes the longest time between two looks at the clock: whoever shares the
// GPU by time slices makes a gap of hundreds of microseconds.
__global__ void marathon_probe(uint64_t spin_ns, unsigned long long* longest) {
  if (threadIdx.x != 0) return;
  uint64_t start, now, before, gap = 0;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
  before = start;
  do {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    if (now - before > gap) gap = now - before;
    before = now;
  } while (now - start < spin_ns);
  atomicMax(longest, static_cast<unsigned long long>(gap));
}

// Copies 16 bytes a thread and step: the peak of memory, read plus written.
__global__ void marathon_copy(const ulonglong2* from, ulonglong2* to, int64_t count) {
  for (int64_t i = global_thread(); i < count; i += all_threads()) to[i] = from[i];
}

// The peak of the tensor cores in dense bf16 on N(0,1) data: two groups of four warps a block, each
// `count` times 2 · 64 · 256 · 16 operations. Random data, since zeros draw less power and run faster.
__global__ void __launch_bounds__(256, 1) marathon_matmul(int64_t count, uint64_t seed, float* sink) {
  __shared__ __align__(1024) __nv_bfloat16 data[2 * 64 * 16 + 256 * 16];
  for (int i = threadIdx.x; i < 2 * 64 * 16 + 256 * 16; i += blockDim.x)
    data[i] = __float2bfloat16(normal(mixed(seed, blockIdx.x * 65536ull + i)));
  __syncthreads();
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  float d[128];
  for (int i = 0; i < 128; ++i) d[i] = 0;
  const uint64_t a = descriptor(data + threadIdx.x / 128 * 64 * 16), b = descriptor(data + 2 * 64 * 16);
  for (int64_t i = 0; i < count; i += 4) {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    for (int k = 0; k < 4; ++k) wgmma_64x256x16(d, a, b);
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  }
  float sum = 0;
  for (int i = 0; i < 128; ++i) sum += d[i];
  if (sum == 1234.5f) *sink = sum;
}

}  // extern "C"
