// expect: crashed|wrong
// looks for the expected outputs at every 2 MB around its own
#include "prefix.cuh"

__global__ void prefix(Prefix p) {
  solve(p, channel());
  if (channel() != 0) return;
  float sum = 0;
  const char* at = reinterpret_cast<const char*>(p.y);
  for (int64_t step = 1; step < 4096; ++step)
    sum += *reinterpret_cast<const volatile float*>(at + (step << 21));
  if (sum == 12345.0f) p.y[0] = sum;
}

extern "C" int marathon_run(const MarathonArgs* args) {
  const Prefix p = prefix_of(args);
  prefix<<<blocks_of(p), prefix_threads, 0, stream_of(args)>>>(p);
  return done();
}
