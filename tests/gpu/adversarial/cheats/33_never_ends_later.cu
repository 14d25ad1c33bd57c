// expect: timed_out
// ends on decoys and never ends when it is replayed
// reason: took longer
#include "prefix.cuh"

__global__ void prefix(Prefix p, bool endless) {
  solve(p, channel());
  volatile float* y = p.y;
  while (endless && y[0] == y[0]) {
  }
}

extern "C" int marathon_run(const MarathonArgs* args) {
  static int calls = 0;
  const Prefix p = prefix_of(args);
  prefix<<<blocks_of(p), prefix_threads, 0, stream_of(args)>>>(p, calls++ > 0);
  return done();
}
