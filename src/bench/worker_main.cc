#include <cstdio>
#include <string_view>

#include "bench/worker.h"

int main(int argc, char** argv) {
  const std::string_view mode = argc > 1 ? argv[1] : "";
  if (mode == "exec") return marathon::worker_exec_main(argc - 2, argv + 2);
  if (mode == "serve") return marathon::worker_serve_main(argc - 2, argv + 2);
  if (mode == "cuda") return marathon::worker_cuda_main(argc - 2, argv + 2);
  if (mode == "replay") return marathon::worker_replay_main(argc - 2, argv + 2);
  if (mode == "profile") return marathon::worker_profile_main(argc - 2, argv + 2);
  std::fputs(
      "marathon-worker runs code that is not trusted. marathon and "
      "marathon-judge start it.\n"
      "  marathon-worker exec --jail FILE -- program arguments …\n"
      "  marathon-worker serve --lib FILE …\n"
      "  marathon-worker cuda --lib FILE --temp DIR\n"
      "  marathon-worker replay [--socket FILE]\n"
      "  marathon-worker profile --lib FILE --task-folder DIR --shape "
      "NAME --calls N\n",
      stderr);
  return 2;
}
