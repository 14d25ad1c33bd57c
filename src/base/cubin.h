// What a cubin holds beside code, read without believing it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace marathon {

struct CubinFacts {
  // Variables in global memory (__device__, static, and tables that the compiler put there): they
  // outlive a call. Strings of printf are not among them.
  std::vector<std::string> global_variables;
  // Bytes of the empty objects of the toolkit's headers (cuda::std::in_place and the like), which
  // stand in every cubin whose source includes cub.
  int64_t library_object_bytes = 0;
  std::vector<std::string> kernels;            // mangled
  std::map<std::string, int64_t> max_threads;  // of a kernel, where __launch_bounds__ says it
  std::vector<std::string> undefined;  // functions that another object must bring (device runtime)
};

// Error invalid when it is no 64-bit ELF for CUDA, or contradicts itself.
Result<CubinFacts> read_cubin(std::string_view bytes);

// The first broken rule in a sentence, or nothing.
std::string broken_cubin_rule(const CubinFacts& facts);

}  // namespace marathon
