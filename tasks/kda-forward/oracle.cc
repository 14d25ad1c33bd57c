// KDA forward by its definition, in plain C++: what oracle.cu is compared with, for small shapes.
//
// As double the recurrence; as float with MARATHON_EMULATION the chunk form whose operands are
// rounded to bf16 (oracle.cu says why). Floating tensors are `real`, whole numbers int64_t.
#include <cmath>
#include <cstring>
#include <vector>

#include "marathon_kernel.h"

namespace {

constexpr int64_t width = 128;
constexpr double norm_epsilon = 1e-6, lowest_gate = -5;

struct Inputs {
  const real *q, *k, *v, *gate, *beta, *a_log, *dt_bias, *start;
  const int64_t* offsets;
  real *out, *last;
  int64_t heads, sequences;
};

real sigmoid(real x) { return 1 / (1 + std::exp(-x)); }

// One token of one head: q and k of norm 1, the gate in log space, beta.
struct Token {
  std::vector<real> q, k, gate;
  real beta = 0;
  const real* v = nullptr;
  real* out = nullptr;
};

std::vector<real> normalised(const real* x) {
  real sum = 0;
  for (int64_t i = 0; i < width; ++i) sum += x[i] * x[i];
  const real factor = 1 / std::sqrt(sum + static_cast<real>(norm_epsilon));
  std::vector<real> result(x, x + width);
  for (real& value : result) value *= factor;
  return result;
}

Token token_at(const Inputs& in, int64_t t, int64_t h) {
  const int64_t row = t * in.heads + h;
  Token token = {normalised(in.q + row * width),
                 normalised(in.k + row * width),
                 std::vector<real>(width),
                 sigmoid(in.beta[row]),
                 in.v + row * width,
                 in.out + row * width};
  const real rate = std::exp(in.a_log[h]);
  for (int64_t i = 0; i < width; ++i) {
    const real raw = in.gate[row * width + i] + in.dt_bias[h * width + i];
    token.gate[i] = static_cast<real>(lowest_gate) * sigmoid(rate * raw);
  }
  return token;
}

#ifndef MARATHON_EMULATION

void run_sequence(const Inputs& in, int64_t n, int64_t h, real* s) {
  const real scale = 1 / std::sqrt(static_cast<real>(width));
  std::vector<real> u(width);
  for (int64_t t = in.offsets[n]; t < in.offsets[n + 1]; ++t) {
    const Token token = token_at(in, t, h);
    for (int64_t j = 0; j < width; ++j) u[j] = token.out[j] = 0;
    for (int64_t i = 0; i < width; ++i) {
      const real decay = std::exp(token.gate[i]);
      for (int64_t j = 0; j < width; ++j) {
        s[i * width + j] *= decay;
        u[j] += token.k[i] * s[i * width + j];
      }
    }
    for (int64_t j = 0; j < width; ++j) u[j] = token.beta * (token.v[j] - u[j]);
    for (int64_t i = 0; i < width; ++i) {
      for (int64_t j = 0; j < width; ++j) {
        s[i * width + j] += token.k[i] * u[j];
        token.out[j] += scale * token.q[i] * s[i * width + j];
      }
    }
  }
}

#else

constexpr int64_t chunk = 32;

// To the nearest, ties to even.
real to_bf16(real x) {
  uint32_t bits;
  std::memcpy(&bits, &x, 4);
  bits = (bits + 0x7fff + ((bits >> 16) & 1)) & 0xffff0000;
  std::memcpy(&x, &bits, 4);
  return x;
}

using Rows = std::vector<std::vector<real> >;

Rows zeros(int64_t rows, int64_t columns) { return Rows(rows, std::vector<real>(columns)); }

real dot(const std::vector<real>& a, const std::vector<real>& b) {
  real sum = 0;
  for (int64_t i = 0; i < width; ++i) sum += a[i] * b[i];
  return sum;
}

void run_chunk(const std::vector<Token>& tokens, std::vector<real>& s) {
  const int64_t count = static_cast<int64_t>(tokens.size()),
                middle = std::min(chunk / 2, count - 1);
  const real scale = 1 / std::sqrt(static_cast<real>(width));
  Rows sum = zeros(count, width);
  for (int64_t t = 0; t < count; ++t) {
    for (int64_t d = 0; d < width; ++d)
      sum[t][d] = tokens[t].gate[d] + (t > 0 ? sum[t - 1][d] : static_cast<real>(0));
  }
  // Around the middle for what is inside of the chunk; from its start and to its end for the state.
  Rows left_k = zeros(count, width), left_q = left_k, right = left_k, from_k = left_k,
       from_q = left_k, to_end = left_k;
  for (int64_t t = 0; t < count; ++t) {
    for (int64_t d = 0; d < width; ++d) {
      const real g = sum[t][d], k = tokens[t].k[d], q = tokens[t].q[d], anchor = sum[middle][d];
      left_k[t][d] = to_bf16(k * std::exp(g - anchor));
      left_q[t][d] = to_bf16(q * std::exp(g - anchor));
      right[t][d] = to_bf16(k * std::exp(anchor - g));
      from_k[t][d] = to_bf16(k * std::exp(g));
      from_q[t][d] = to_bf16(q * std::exp(g));
      to_end[t][d] = to_bf16(k * std::exp(sum[count - 1][d] - g));
    }
  }
  Rows inverse = zeros(count, count), among_keys = inverse, among_queries = inverse;
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t j = 0; j < i; ++j) among_keys[i][j] = tokens[i].beta * dot(left_k[i], right[j]);
    for (int64_t j = 0; j <= i; ++j) among_queries[i][j] = to_bf16(dot(left_q[i], right[j]));
    for (int64_t j = 0; j <= i; ++j) {
      real value = i == j ? 1 : 0;
      for (int64_t l = j; l < i; ++l) value -= among_keys[i][l] * inverse[l][j];
      inverse[i][j] = value;
    }
  }
  std::vector<real> value(count), update(count), rounded(width);
  for (int64_t j = 0; j < width; ++j) {
    for (int64_t d = 0; d < width; ++d) rounded[d] = to_bf16(s[d * width + j]);
    for (int64_t t = 0; t < count; ++t)
      value[t] = to_bf16(tokens[t].beta * (tokens[t].v[j] - dot(from_k[t], rounded)));
    for (int64_t t = 0; t < count; ++t) {
      real all = 0;
      for (int64_t l = 0; l <= t; ++l) all += to_bf16(inverse[t][l]) * value[l];
      update[t] = to_bf16(all);
      all = dot(from_q[t], rounded);
      for (int64_t l = 0; l <= t; ++l) all += among_queries[t][l] * update[l];
      tokens[t].out[j] = scale * all;
    }
    for (int64_t d = 0; d < width; ++d) {
      real all = std::exp(sum[count - 1][d]) * s[d * width + j];
      for (int64_t t = 0; t < count; ++t) all += to_end[t][d] * update[t];
      s[d * width + j] = all;
    }
  }
}

void run_sequence(const Inputs& in, int64_t n, int64_t h, real* last) {
  std::vector<real> s(last, last + width * width);
  for (int64_t first = in.offsets[n]; first < in.offsets[n + 1]; first += chunk) {
    std::vector<Token> tokens;
    for (int64_t t = first; t < std::min(first + chunk, in.offsets[n + 1]); ++t)
      tokens.push_back(token_at(in, t, h));
    run_chunk(tokens, s);
  }
  std::memcpy(last, s.data(), s.size() * sizeof(real));
}

#endif

}  // namespace

extern "C" int marathon_oracle(const MarathonArgs* args) {
  const auto floating = [&](int i) { return static_cast<const real*>(args->tensors[i]); };
  const Inputs in = {floating(0),
                     floating(1),
                     floating(2),
                     floating(3),
                     floating(4),
                     floating(5),
                     floating(6),
                     floating(7),
                     static_cast<const int64_t*>(args->tensors[8]),
                     static_cast<real*>(args->tensors[9]),
                     static_cast<real*>(args->tensors[10]),
                     args->dims[2],
                     args->dims[3]};
  for (int64_t n = 0; n < in.sequences; ++n) {
    for (int64_t h = 0; h < in.heads; ++h) {
      const int64_t state = (n * in.heads + h) * width * width;
      std::memcpy(in.last + state, in.start + state, width * width * sizeof(real));
      run_sequence(in, n, h, in.last + state);
    }
  }
  return 0;
}
