// Rules on what a CUDA build holds for the device.
#include <cxxabi.h>
#include <fmt/format.h>

#include <cstdlib>
#include <map>

#include "base/cubin.h"
#include "base/file.h"
#include "judge/rules.h"

namespace marathon {

namespace {

std::string readable(const std::string& name) {
  int status = 0;
  char* text = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
  std::string result = status == 0 && text ? text : name;
  std::free(text);
  return result.substr(0, 200);
}

}  // namespace

Result<std::optional<std::string>> broken_cuda_rule(const BinaryRules& rules,
                                                    const BuildOutcome& built) {
  const std::string library = TRY(read_file(built.library));
  if (std::optional<std::string> broken = broken_host_library_rule(rules, library)) return broken;
  std::map<std::string, std::string> holders;  // by kernel
  for (const std::filesystem::path& cubin : built.cubins) {
    const std::string unit = cubin.stem().string();
    const Result<CubinFacts> facts = read_cubin(TRY(read_file(cubin)));
    if (!facts) return std::optional<std::string>(unit + ": " + facts.error().what);
    CubinFacts shown = *facts;
    for (std::string& name : shown.global_variables) name = readable(name);
    if (const std::string broken = broken_cubin_rule(shown); !broken.empty())
      return std::optional<std::string>(fmt::format("{}: {}", unit, broken));
    for (const std::string& kernel : facts->kernels) {
      const auto [other, is_new] = holders.emplace(kernel, unit);
      if (is_new) continue;
      return std::optional<std::string>(fmt::format(
          "the kernel '{}' is in {} and in {}: what is launched is known by its name alone; rename "
          "one, or put it into an anonymous namespace",
          readable(kernel), other->second, unit));
    }
  }
  return std::optional<std::string>();
}

}  // namespace marathon
