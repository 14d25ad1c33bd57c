// What a cubin holds beside code, read without believing it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace marathon {

struct CubinFacts {
  // Variables in global memory (__device__, static, and tables that the compiler put there): they
  // outlive a call. Strings of printf are not among them.
  std::vector<std::string> global_variables;
  std::vector<std::string> kernels;    // mangled
  std::vector<std::string> undefined;  // functions that another object must bring (device runtime)
};

// Error invalid when it is no 64-bit ELF for CUDA, or contradicts itself.
Result<CubinFacts> read_cubin(std::string_view bytes);

// The first broken rule in a sentence, or nothing.
std::string broken_cubin_rule(const CubinFacts& facts);

}  // namespace marathon
