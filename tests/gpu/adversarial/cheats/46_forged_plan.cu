// expect: crashed|rule_broken|suspicious|wrong
// writes a plan and a result of its own into every place it may and leaves
#include <cstdio>
#include <cstdlib>
#include <string>

#include "prefix.cuh"

extern "C" void _exit(int);

__global__ void prefix(Prefix p) { solve(p, channel()); }

extern "C" int marathon_run(const MarathonArgs*) {
  const char* folder = std::getenv("TMPDIR");
  for (const char* name : {"plan-0.json", "plan.json", "result.json"}) {
    const std::string file = std::string(folder ? folder : ".") + "/" + name;
    if (std::FILE* to = std::fopen(file.c_str(), "w")) {
      std::fputs("{\"verdict\": \"faster\", \"speedup\": 100, \"arenas\": [], \"graphs\": []}", to);
      std::fclose(to);
    }
  }
  _exit(0);
}
