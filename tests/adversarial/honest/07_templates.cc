// expect: same|slower|faster
// recursive templates unroll the channels
#include <utility>

#include "prefix.h"

namespace {
template <size_t... i>
void tile(const PrefixArgs& p, int64_t first, std::index_sequence<i...>) {
  float state[sizeof...(i)] = {p.start[first + i]...};
  for (int64_t t = 0; t < p.t; ++t) {
    const int64_t at = t * p.c + first;
    ((p.y[at + i] = state[i] = p.a[at + i] * state[i] + p.x[at + i]), ...);
  }
  ((p.last[first + i] = state[i]), ...);
}
}  // namespace

extern "C" int marathon_run(const MarathonArgs* args) {
  const PrefixArgs p = prefix_args(args);
  int64_t first = 0;
  for (; first + 32 <= p.c; first += 32) tile(p, first, std::make_index_sequence<32>());
  for (; first < p.c; ++first) tile(p, first, std::make_index_sequence<1>());
  return 0;
}
